/** Lines that a process wrote, kept for those who come late and handed to those who wait. */
export class Lines {
  readonly #lines: string[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #patience: number;
  #rest = "";
  #ended: Error | undefined;

  /** `patience` is for how many milliseconds `find` waits for a line that does not come. */
  constructor(patience = 15_000) {
    this.#patience = patience;
  }

  write(text: string): void {
    const parts = (this.#rest + text).split("\n");
    this.#rest = parts.pop() ?? "";
    this.#lines.push(...parts);
    this.#wake();
  }

  end(reason = new Error("the process ended")): void {
    this.#ended = reason;
    this.#wake();
  }

  /** A place in the log; `find` looks only at what comes after it. */
  get mark(): number {
    return this.#lines.length;
  }

  /** Resolves with the first line after `from` that matches. */
  find(pattern: RegExp, from = 0): Promise<string> {
    return new Promise((found, failed) => {
      const timer = setTimeout(() => {
        settle(() => {
          failed(this.#error(`no line matches ${pattern.source} within ${this.#patience} ms`, from));
        });
      }, this.#patience);
      const settle = (act: () => void) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        act();
      };
      const look = () => {
        const line = this.#lines.slice(from).find((l) => pattern.test(l));
        if (line !== undefined) {
          settle(() => {
            found(line);
          });
        } else if (this.#ended) {
          const why = this.#ended.message;
          settle(() => {
            failed(this.#error(`${why} before a line matched ${pattern.source}`, from));
          });
        }
      };
      this.#waiting.add(look);
      look();
    });
  }

  #wake(): void {
    for (const look of [...this.#waiting]) look();
  }

  #error(message: string, from: number): Error {
    return new Error(`${message}; it wrote:\n${this.#lines.slice(from).slice(-30).join("\n")}`);
  }
}
