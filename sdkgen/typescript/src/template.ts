/**
 * Matches URIs against URI templates of RFC 6570, and returns the values of the variables. Level 3 is supported: `{a}`
 * and `{a,b}`, `{+path}`, `{#part}`, `{.ext}`, `{/a,b}`, `{;a,b}`, `{?a,b}` and `{&a,b}`. Level 4, `{a:3}` and `{a*}`,
 * is not.
 */

type Names<S extends string> = S extends `${infer A},${infer B}` ? A | Names<B> : S;
type First<S extends string> = S extends `${infer A},${string}` ? A : S;
type Others<S extends string> = S extends `${string},${infer B}` ? Names<B> : never;
type MayBeMissing = "#" | "." | "/" | ";" | "?" | "&";
type Needed<S extends string> = S extends `${string}{${infer E}}${infer Rest}`
  ? (E extends `${MayBeMissing}${string}` ? never : E extends `+${infer N}` ? First<N> : First<E>) | Needed<Rest>
  : never;
type Optional<S extends string> = S extends `${string}{${infer E}}${infer Rest}`
  ?
    | (E extends `${MayBeMissing}${infer N}` ? Names<N> : E extends `+${infer N}` ? Others<N> : Others<E>)
    | Optional<Rest>
  : never;

/** The variables of a template, by name, if the text is a literal type. */
export type Variables<S extends string> = string extends S
  ? Record<string, string>
  : Record<Needed<S>, string> & Partial<Record<Optional<S>, string>>;

// The maximum length of a URI.
const MAX_URI = 4096;

/** A part of a template: literal text, and an optional value after it. */
interface Piece {
  readonly literal: string;
  /** The variables of the value, if any. Several only if the value contains names: a=1&b=2. */
  readonly names: string[];
  /** Characters that end the value. */
  readonly endsAt: string;
  /** Separates several variables. */
  readonly separator: "" | "&" | ";";
  readonly mayBeMissing: boolean;
}

export class Template {
  readonly variables: string[] = [];
  readonly #pieces: Piece[] = [];

  /** Throws a SyntaxError if the template is invalid or not supported. */
  constructor(template: string) {
    let end = 0;
    for (const expression of template.matchAll(/\{([^{}]*)\}/g)) {
      const text = expression[1] ?? "";
      const literal = template.slice(end, expression.index);
      const operator = /^[+#./;?&]/.exec(text)?.[0] ?? "";
      if (!literal && end && (operator === "" || operator === "+"))
        throw new SyntaxError(`{${text}} must be separated from the variable before it`);
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
      // {+path} allows reserved characters, but ends where a query may start.
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
    if (/[{}]/.test(literal)) throw new SyntaxError("unmatched brace");
    if (literal) this.#pieces.push({ literal, names: [], endsAt: "", separator: "", mayBeMissing: false });
  }

  #name(name: string, expression: string): void {
    if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name)) {
      throw new SyntaxError(
        `{${expression}} cannot be matched; ` +
          "there are {a}, {a,b}, {+path}, {#part}, {.ext}, {/a,b}, {;a,b}, {?a,b} and {&a,b}",
      );
    }
    if (this.variables.includes(name)) throw new SyntaxError(`duplicate variable {${name}}`);
    this.variables.push(name);
  }

  /**
   * Returns the percent-decoded values of the variables, or undefined if the URI does not match. Values with `..` path
   * segments, such as `../secret`, do not match. The time is linear in the length of the URI.
   */
  match(uri: string): Record<string, string> | undefined {
    const match = this.#find(uri);
    if (!match) return undefined;
    const values: Record<string, string> = {};
    try {
      for (const [{ names, separator }, value] of match) {
        if (!separator) values[names[0] ?? ""] = decodeURIComponent(value);
        else {
          for (const [name, one] of separator === "&" ? new URLSearchParams(value) : pairs(value)) {
            if (names.includes(name)) values[name] = one;
          }
        }
      }
    } catch {
      return undefined; // Invalid percent-encoding.
    }
    const bad = (value: string) => value.includes("\0") || value.split(/[/\\]/).includes("..");
    return Object.values(values).some(bad) ? undefined : values;
  }

  /** Returns the encoded values. Matching is greedy, from the first variable on. */
  #find(uri: string): [Piece, string][] | undefined {
    const [first] = this.#pieces;
    if (uri.length > MAX_URI || (first && !first.mayBeMissing && !uri.startsWith(first.literal))) return undefined;
    // A regular expression would backtrack. Backward: where each piece can start so that the rest matches.
    let starts = new Int16Array(uri.length + 1).fill(-1);
    starts[uri.length] = uri.length;
    const longest: Int16Array[] = []; // For each piece, its end by its start; -1 if it cannot start there.
    for (const piece of this.#pieces.toReversed()) longest.unshift((starts = ends(piece, uri, starts)));
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

/** Returns the latest end of a piece by its start; the rest must start there. An absent piece ends where it starts. */
function ends(
  { literal, names, endsAt, separator, mayBeMissing }: Piece,
  uri: string,
  starts: Int16Array,
): Int16Array<ArrayBuffer> {
  const canEnd = (at: number) => (starts[at] ?? -1) >= 0;
  const values = new Int16Array(uri.length + 2).fill(-1); // The end of a value by its start.
  if (names.length) {
    let end = -1; // The latest end from this position.
    for (let at = uri.length; at >= 0; at--) {
      if (endsAt.includes(uri.charAt(at)) && at < uri.length) end = -1;
      if (separator && end < 0 && canEnd(at)) end = at; // The value may be empty.
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
