package com.example.library;

import com.example.library.Library.Book;
import com.example.library.Library.Loan;
import com.example.library.Library.LoanException;
import dev.mcpbridge.Bridge;
import dev.mcpbridge.CompleteResourceTemplate;
import dev.mcpbridge.Context;
import dev.mcpbridge.Hint;
import dev.mcpbridge.NotFoundException;
import dev.mcpbridge.Resource;
import dev.mcpbridge.ResourceTemplate;
import dev.mcpbridge.Tool;
import dev.mcpbridge.ToolArg;
import dev.mcpbridge.ToolException;
import jakarta.validation.constraints.NotBlank;
import jakarta.validation.constraints.Pattern;
import java.time.Clock;
import java.time.LocalDate;
import java.util.List;

/** The library as tools. Run it with: mcpbridge run -- java -jar target/service-java.jar */
public final class LibraryTools {
  private static final String ISBN = "[0-9-]{10,17}";

  private final Library library;
  private final Clock clock;

  LibraryTools(Library library, Clock clock) {
    this.library = library;
    this.clock = clock;
  }

  @Tool(description = "Find books by words of their title and author.", readOnly = Hint.YES)
  public List<Book> search(@NotBlank @ToolArg(description = "Words that all have to be there") String words) {
    return library.search(words);
  }

  @Tool(description = "Lend a book to a member.", destructive = Hint.NO)
  public Loan lend(
      @Pattern(regexp = ISBN) String isbn,
      @NotBlank @ToolArg(description = "The member's name") String member,
      Context ctx)
      throws LoanException {
    Loan loan = library.lend(isbn, member, LocalDate.now(clock)); // The model reads the messages of its exceptions.
    ctx.notifyUpdated("library://loans");
    return loan;
  }

  @Tool(description = "Remove a book for good. The user is asked first.", destructive = Hint.YES)
  public String remove(@Pattern(regexp = ISBN) String isbn, Context ctx) throws LoanException {
    Book book = library.book(isbn).orElseThrow(() -> new ToolException("there is no book " + isbn));
    if (!ctx.elicit("Remove \"" + book.title() + "\" for good?", Boolean.class).yes()) {
      return "The user keeps " + book.title() + ".";
    }
    library.remove(isbn);
    return "Removed " + book.title() + ".";
  }

  @Resource(uri = "library://loans", description = "What is lent, to whom, and until when")
  public List<Loan> loans() {
    return library.loans();
  }

  @ResourceTemplate(uriTemplate = "library://books/{isbn}", description = "A book")
  public Book book(String isbn) {
    return library.book(isbn).orElseThrow(() -> new NotFoundException("there is no book " + isbn));
  }

  @CompleteResourceTemplate("library://books/{isbn}")
  public List<String> complete(String isbn) {
    return library.search("").stream().map(Book::isbn).filter(i -> i.startsWith(isbn)).toList();
  }

  public static void main(String[] args) {
    Bridge.app("library", "1.0").add(new LibraryTools(Library.small(), Clock.systemDefaultZone())).run(args);
  }
}
