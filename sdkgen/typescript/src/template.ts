/**
 * URI templates of RFC 6570, backwards: from a URI to the values of the template's variables. These are the kinds that can be
 * told apart again: `{name}` (no slash), `{+path}` (slashes too) and, at the end, `{?a,b}` (each may be missing).
 */

type Names<S extends string> = S extends `${infer A},${infer B}` ? A | Names<B> : S;
type Needed<S extends string> = S extends `${string}{${infer E}}${infer Rest}`
  ? (E extends `?${string}` ? never : E extends `+${infer N}` ? N : E) | Needed<Rest>
  : never;
type Optional<S extends string> = S extends `${string}{?${infer E}}${string}` ? Names<E> : never;

/** The variables of a template, by name, as far as the compiler knows the text. */
export type Variables<S extends string> = string extends S
  ? Record<string, string>
  : Record<Needed<S>, string> & Partial<Record<Optional<S>, string>>;

// Of a URI that may be matched.
const MAX_URI = 4096;

/** A part of a template: text, or a variable and what its value cannot have in it. */
type Piece = { readonly literal: string } | { readonly name: string; readonly endsAt: string };

export class Template {
  readonly variables: string[] = [];
  readonly #query: string[] = [];
  readonly #pieces: Piece[] = [];

  /** Throws a SyntaxError that says what is wrong with the template, or of a kind that cannot be matched. */
  constructor(template: string) {
    let end = 0;
    for (const expression of template.matchAll(/\{([^{}]*)\}/g)) {
      const text = expression[1] ?? "";
      const literal = template.slice(end, expression.index);
      if (!literal && end && !text.startsWith("?")) throw new SyntaxError(`there is nothing between {${text}} and what is before it`);
      end = expression.index + expression[0].length;
      this.#literal(literal);
      if (text.startsWith("?")) {
        if (end !== template.length) throw new SyntaxError(`{${text}} has to be at the end`);
        this.#query = text.slice(1).split(",");
        for (const name of this.#query) this.#name(name, text);
      } else {
        const name = text.replace(/^\+/, "");
        this.#name(name, text);
        // A path ends where a query may begin.
        const path = template.includes("{?") ? "?#" : "";
        this.#pieces.push({ name, endsAt: text.startsWith("+") ? path : "/?#" });
      }
    }
    this.#literal(template.slice(end));
  }

  #literal(literal: string): void {
    if (/[{}]/.test(literal)) throw new SyntaxError("a brace has no partner");
    if (literal) this.#pieces.push({ literal });
  }

  #name(name: string, expression: string): void {
    if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name)) {
      throw new SyntaxError(`{${expression}} cannot be matched; there are {name}, {+path} and, at the end, {?a,b}`);
    }
    if (this.variables.includes(name)) throw new SyntaxError(`{${name}} is there twice`);
    this.variables.push(name);
  }

  /**
   * The variables' values, percent-decoded, or undefined if the URI is none of the template's. A value that climbs out of a
   * folder, such as `../secret`, is none of the template's. The time it takes grows with the length of the URI, and no faster.
   */
  match(uri: string): Record<string, string> | undefined {
    const found = this.#find(uri);
    if (!found) return undefined;
    const values: Record<string, string> = {};
    try {
      for (const [name, value] of found.values) values[name] = decodeURIComponent(value);
    } catch {
      return undefined; // Not percent-encoding.
    }
    if (this.#query.length) {
      for (const [name, value] of new URLSearchParams(found.query)) {
        if (this.#query.includes(name)) values[name] = value;
      }
    }
    const bad = (value: string) => value.includes("\0") || value.split(/[/\\]/).includes("..");
    return Object.values(values).some(bad) ? undefined : values;
  }

  /** The variables' values as they stand there, each as long as it can be, the first before the others; and the query. */
  #find(uri: string): { values: [string, string][]; query: string } | undefined {
    const [first] = this.#pieces;
    if (uri.length > MAX_URI || (first && "literal" in first && !uri.startsWith(first.literal))) return undefined;
    // A regular expression would try all ways to divide a URI. From the end: where each piece can begin so that the rest fits.
    let rest = this.#ends(uri);
    const longest: Int16Array[] = []; // For each piece, where it ends if it begins there; -1: it cannot.
    for (const piece of this.#pieces.toReversed()) {
      const ends = new Int16Array(uri.length + 1).fill(-1);
      if ("literal" in piece) {
        for (let at = uri.indexOf(piece.literal); at >= 0; at = uri.indexOf(piece.literal, at + 1)) {
          if ((rest[at + piece.literal.length] ?? -1) >= 0) ends[at] = at + piece.literal.length;
        }
      } else {
        let end = -1;
        for (let at = uri.length - 1; at >= 0; at--) {
          if (piece.endsAt.includes(uri.charAt(at))) end = -1;
          else {
            if (end < 0 && (rest[at + 1] ?? -1) >= 0) end = at + 1;
            ends[at] = end;
          }
        }
      }
      longest.unshift(ends);
      rest = ends;
    }
    const values: [string, string][] = [];
    let at = 0;
    for (const [i, piece] of this.#pieces.entries()) {
      const end = longest[i]?.[at] ?? -1;
      if (end < 0) return undefined;
      if ("name" in piece) values.push([piece.name, uri.slice(at, end)]);
      at = end;
    }
    return (this.#ends(uri)[at] ?? -1) < 0 ? undefined : { values, query: uri.slice(at + 1) };
  }

  /** Where all but the query can end: at the end, or before the query if the template has one. */
  #ends(uri: string): Int16Array {
    const ends = new Int16Array(uri.length + 1).fill(-1);
    ends[uri.length] = uri.length;
    if (!this.#query.length) return ends;
    for (let at = uri.indexOf("?", uri.lastIndexOf("#") + 1); at >= 0; at = uri.indexOf("?", at + 1)) ends[at] = uri.length;
    return ends;
  }
}
