package com.example.library;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** A library and its loans: an existing class without any MCP. */
public class Library {
  /** How long a book is lent for. */
  public static final int LOAN_DAYS = 21;

  public record Book(String isbn, String title, String author, int year) {}

  public record Loan(Book book, String member, LocalDate due) {}

  /** A violation of the rules of the library. */
  public static class LoanException extends Exception {
    private static final long serialVersionUID = 1;

    public LoanException(String message) {
      super(message);
    }
  }

  private final Map<String, Book> books = new TreeMap<>();
  private final Map<String, Loan> loans = new TreeMap<>();

  public synchronized void add(Book book) {
    books.put(book.isbn(), book);
  }

  public synchronized List<Book> search(String words) {
    List<Book> found = new ArrayList<>();
    for (Book book : books.values()) {
      String text = (book.title() + " " + book.author()).toLowerCase(Locale.ROOT);
      if (words
          .toLowerCase(Locale.ROOT)
          .lines()
          .flatMap(l -> List.of(l.split(" +", -1)).stream())
          .allMatch(text::contains)) {
        found.add(book);
      }
    }
    return found;
  }

  public synchronized Optional<Book> book(String isbn) {
    return Optional.ofNullable(books.get(isbn));
  }

  public synchronized List<Loan> loans() {
    return List.copyOf(loans.values());
  }

  public synchronized Loan lend(String isbn, String member, LocalDate today) throws LoanException {
    Book book = book(isbn).orElseThrow(() -> new LoanException("there is no book " + isbn));
    Loan other = loans.get(isbn);
    if (other != null) {
      throw new LoanException(book.title() + " is lent to " + other.member() + " until " + other.due());
    }
    Loan loan = new Loan(book, member, today.plusDays(LOAN_DAYS));
    loans.put(isbn, loan);
    return loan;
  }

  public synchronized void remove(String isbn) throws LoanException {
    if (loans.containsKey(isbn)) {
      throw new LoanException("it is lent to " + loans.get(isbn).member());
    }
    books.remove(isbn);
  }

  /** A library with a few books. */
  public static Library small() {
    Library library = new Library();
    library.add(new Book("978-0-13-468599-1", "Effective Java", "Joshua Bloch", 2018));
    library.add(new Book("978-0-321-34960-6", "Java Concurrency in Practice", "Brian Goetz", 2006));
    library.add(new Book("978-0-13-110362-7", "The C Programming Language", "Brian Kernighan", 1988));
    return library;
  }
}
