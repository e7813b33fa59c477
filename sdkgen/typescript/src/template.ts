/**
 * URI templates of RFC 6570, backwards: from a URI to the values of the template's variables. All of level 3 is here: `{a}` and
 * `{a,b}`, `{+path}`, `{#part}`, `{.ext}`, `{/a,b}`, `{;a,b}`, `{?a,b}` and `{&a,b}`. Of level 4, `{a:3}` and `{a*}`, nothing is.
 */

type Names<S extends string> = S extends `${infer A},${infer B}` ? A | Names<B> : S;
type First<S extends string> = S extends `${infer A},${string}` ? A : S;
type Others<S extends string> = S extends `${string},${infer B}` ? Names<B> : never;
type MayBeMissing = "#" | "." | "/" | ";" | "?" | "&";
type Needed<S extends string> = S extends `${string}{${infer E}}${infer Rest}`
  ? (E extends `${MayBeMissing}${string}` ? never : E extends `+${infer N}` ? First<N> : First<E>) | Needed<Rest>
  : never;
type Optional<S extends string> = S extends `${string}{${infer E}}${infer Rest}`
  ? (E extends `${MayBeMissing}${infer N}` ? Names<N> : E extends `+${infer N}` ? Others<N> : Others<E>) | Optional<Rest>
  : never;

/** The variables of a template, by name, as far as the compiler knows the text. */
export type Variables<S extends string> = string extends S
  ? Record<string, string>
  : Record<Needed<S>, string> & Partial<Record<Optional<S>, string>>;

// Of a URI that may be matched.
const MAX_URI = 4096;

/** A part of a template: text, and what may follow it. */
interface Piece {
  readonly literal: string;
  /** The variables of the value; none: there is only the text. Several only where the value says which is meant: a=1&b=2. */
  readonly names: string[];
  /** What the value cannot have in it. */
  readonly endsAt: string;
  /** Of several variables. */
  readonly separator: "" | "&" | ";";
  readonly mayBeMissing: boolean;
}

export class Template {
  readonly variables: string[] = [];
  readonly #pieces: Piece[] = [];

  /** Throws a SyntaxError that says what is wrong with the template, or of a kind that cannot be matched. */
  constructor(template: string) {
    let end = 0;
    for (const expression of template.matchAll(/\{([^{}]*)\}/g)) {
      const text = expression[1] ?? "";
      const literal = template.slice(end, expression.index);
      const operator = /^[+#./;?&]/.exec(text)?.[0] ?? "";
      if (!literal && end && (operator === "" || operator === "+")) throw new SyntaxError(`there is nothing between {${text}} and what is before it`);
      end = expression.index + expression[0].length;
      this.#literal(literal);
      const names = text.slice(operator.length).split(",");
      for (const name of names) this.#name(name, text);
      this.#add(operator, names, template);
    }
    this.#literal(template.slice(end));
  }

  #add(operator: string, names: string[], template: string): void {
    const last = this.#pieces.at(-1);
    if (operator === "&" && last?.separator === "&") {
      last.names.push(...names); // {?a}{&b} is {?a,b}.
    } else if (operator === "?" || operator === "&") {
      this.#pieces.push({ literal: operator, names, endsAt: "#", separator: "&", mayBeMissing: true });
    } else if (operator === ";") {
      this.#pieces.push({ literal: ";", names, endsAt: "/?#", separator: ";", mayBeMissing: true });
    } else {
      // Reserved characters are what {+path} is for, but it ends where a query may begin.
      const path = template.includes("{?") ? "?#" : template.includes("{#") ? "#" : "";
      const between = operator === "." || operator === "/" ? operator : ",";
      const endsAt = (operator === "+" ? path : operator === "#" ? "" : "/?#") + (names.length > 1 ? between : "");
      for (const [i, name] of names.entries()) {
        const literal = i ? between : operator.replace("+", "");
        this.#pieces.push({ literal, names: [name], endsAt, separator: "", mayBeMissing: literal !== "" });
      }
    }
  }

  #literal(literal: string): void {
    if (/[{}]/.test(literal)) throw new SyntaxError("a brace has no partner");
    if (literal) this.#pieces.push({ literal, names: [], endsAt: "", separator: "", mayBeMissing: false });
  }

  #name(name: string, expression: string): void {
    if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name)) {
      throw new SyntaxError(
        `{${expression}} cannot be matched; there are {a}, {a,b}, {+path}, {#part}, {.ext}, {/a,b}, {;a,b}, {?a,b} and {&a,b}`,
      );
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
      for (const [{ names, separator }, value] of found) {
        if (!separator) values[names[0] ?? ""] = decodeURIComponent(value);
        else {
          for (const [name, one] of separator === "&" ? new URLSearchParams(value) : pairs(value)) {
            if (names.includes(name)) values[name] = one;
          }
        }
      }
    } catch {
      return undefined; // Not percent-encoding.
    }
    const bad = (value: string) => value.includes("\0") || value.split(/[/\\]/).includes("..");
    return Object.values(values).some(bad) ? undefined : values;
  }

  /** The values as they stand there, each as long as it can be, the first before the others. */
  #find(uri: string): [Piece, string][] | undefined {
    const [first] = this.#pieces;
    if (uri.length > MAX_URI || (first && !first.mayBeMissing && !uri.startsWith(first.literal))) return undefined;
    // A regular expression would try all ways to divide a URI. From the end: where each piece can begin so that the rest fits.
    let rest = new Int16Array(uri.length + 1).fill(-1);
    rest[uri.length] = uri.length;
    const longest: Int16Array[] = []; // For each piece, where it ends if it begins there; -1: it cannot.
    for (const piece of this.#pieces.toReversed()) longest.unshift((rest = ends(piece, uri, rest)));
    const values: [Piece, string][] = [];
    let at = 0;
    for (const [i, piece] of this.#pieces.entries()) {
      const end = longest[i]?.[at] ?? -1;
      if (end < 0) return undefined;
      if (piece.names.length && end > at) values.push([piece, uri.slice(at + piece.literal.length, end)]);
      at = end;
    }
    return at < uri.length ? undefined : values;
  }
}

/** For each place where a piece can begin, its last end; the rest has to begin there. One that is missing ends where it begins. */
function ends({ literal, names, endsAt, separator, mayBeMissing }: Piece, uri: string, rest: Int16Array): Int16Array<ArrayBuffer> {
  const canEnd = (at: number) => (rest[at] ?? -1) >= 0;
  const values = new Int16Array(uri.length + 2).fill(-1); // Where a value ends that begins there.
  if (names.length) {
    let end = -1; // The last that is reached from here.
    for (let at = uri.length; at >= 0; at--) {
      if (endsAt.includes(uri.charAt(at)) && at < uri.length) end = -1;
      if (separator && end < 0 && canEnd(at)) end = at; // It may be empty.
      values[at] = end;
      if (end < 0 && canEnd(at)) end = at;
    }
  } else for (let at = 0; at <= uri.length; at++) values[at] = canEnd(at) ? at : -1;
  const all = new Int16Array(uri.length + 1).fill(-1);
  for (let at = 0; at <= uri.length; at++) {
    if (uri.startsWith(literal, at)) all[at] = values[at + literal.length] ?? -1;
    if ((all[at] ?? -1) < 0 && mayBeMissing && canEnd(at)) all[at] = at;
  }
  return all;
}

function pairs(value: string): [string, string][] {
  return value.split(";").map((pair) => {
    const [name = "", ...text] = pair.split("=");
    return [decodeURIComponent(name), decodeURIComponent(text.join("="))];
  });
}
