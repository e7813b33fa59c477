/** The output lines of a process, which can be searched and awaited. */
export class Lines {
  readonly #lines: string[] = [];
  readonly #searches = new Set<() => void>();
  readonly #timeout: number;
  #rest = "";
  #ended: Error | undefined;

  /** `timeout` is how long `find` waits for a line, in milliseconds. */
  constructor(timeout = 15_000) {
    this.#timeout = timeout;
  }

  write(text: string): void {
    const parts = (this.#rest + text).split("\n");
    this.#rest = parts.pop() ?? "";
    this.#lines.push(...parts);
    this.#wake();
  }

  end(reason = new Error("the process exited")): void {
    this.#ended = reason;
    this.#wake();
  }

  /** The current position, for the `from` of `find`. */
  get mark(): number {
    return this.#lines.length;
  }

  /** Resolves with the first line after `from` that matches. */
  find(pattern: RegExp, from = 0): Promise<string> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        settle(() => {
          reject(this.#error(`no line matches ${pattern.source} within ${this.#timeout} ms`, from));
        });
      }, this.#timeout);
      const settle = (act: () => void) => {
        clearTimeout(timer);
        this.#searches.delete(search);
        act();
      };
      const search = () => {
        const line = this.#lines.slice(from).find((l) => pattern.test(l));
        if (line !== undefined) {
          settle(() => {
            resolve(line);
          });
        } else if (this.#ended) {
          const why = this.#ended.message;
          settle(() => {
            reject(this.#error(`${why} before a line matched ${pattern.source}`, from));
          });
        }
      };
      this.#searches.add(search);
      search();
    });
  }

  #wake(): void {
    for (const search of [...this.#searches]) search();
  }

  #error(message: string, from: number): Error {
    return new Error(`${message}; its output:\n${this.#lines.slice(from).slice(-30).join("\n")}`);
  }
}
