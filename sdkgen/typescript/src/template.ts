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

// Of a URI that may be matched: what a pattern can take grows faster than that.
const MAX_URI = 4096;

export class Template {
  readonly variables: string[] = [];
  readonly #query: string[] = [];
  readonly #pattern: RegExp;

  /** Throws a SyntaxError that says what is wrong with the template, or of a kind that cannot be matched. */
  constructor(template: string) {
    let pattern = "";
    let end = 0;
    for (const expression of template.matchAll(/\{([^{}]*)\}/g)) {
      const text = expression[1] ?? "";
      const literal = template.slice(end, expression.index);
      if (!literal && end && !text.startsWith("?")) throw new SyntaxError(`there is nothing between {${text}} and what is before it`);
      end = expression.index + expression[0].length;
      pattern += literally(literal);
      if (text.startsWith("?")) {
        if (end !== template.length) throw new SyntaxError(`{${text}} has to be at the end`);
        this.#query = text.slice(1).split(",");
        for (const name of this.#query) this.#name(name, text);
      } else {
        const name = text.replace(/^\+/, "");
        this.#name(name, text);
        // A path ends where a query may begin.
        const path = template.includes("{?") ? "[^?#]+" : ".+";
        pattern += `(?<${name}>${text.startsWith("+") ? path : "[^/?#]+"})`;
      }
    }
    pattern += literally(template.slice(end));
    this.#pattern = new RegExp(`^${pattern}${this.#query.length ? String.raw`(?:\?(?<$query>[^#]*))?` : ""}$`, "s");
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
   * folder, such as `../secret`, is none of the template's.
   */
  match(uri: string): Record<string, string> | undefined {
    const found = uri.length <= MAX_URI ? this.#pattern.exec(uri) : null;
    if (!found) return undefined;
    const values: Record<string, string> = {};
    try {
      for (const [name, value] of Object.entries(found.groups ?? {})) {
        if (name !== "$query") values[name] = decodeURIComponent(value);
      }
    } catch {
      return undefined; // Not percent-encoding.
    }
    if (this.#query.length) {
      for (const [name, value] of new URLSearchParams(found.groups?.$query ?? "")) {
        if (this.#query.includes(name)) values[name] = value;
      }
    }
    const bad = (value: string) => value.includes("\0") || value.split(/[/\\]/).includes("..");
    return Object.values(values).some(bad) ? undefined : values;
  }
}

function literally(literal: string): string {
  if (/[{}]/.test(literal)) throw new SyntaxError("a brace has no partner");
  return literal.replace(/[.*+?^$()|[\]\\/-]/g, String.raw`\$&`);
}
