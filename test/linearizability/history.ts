/**
 * What a process does and what it is answered, a line at the beginning of each operation and one at its end. A line is in the file
 * once it is written, so a process that is killed leaves its operations without an end.
 */
import { openSync, writeSync } from 'node:fs'

type Values = Readonly<Record<string, unknown>>

/** As test/model/porcupine/main.go reads it. */
export interface Subject {
  readonly object: string
  readonly model: 'claim' | 'limiter' | 'ledger' | 'turns' | 'lock' | 'tokens'
}

export interface Beginning extends Subject {
  readonly id: number
  readonly client: number
  /** By a monotonic clock that all processes of a machine share, in nanoseconds. */
  readonly at: string
  readonly ms: number
  readonly input: Values
}

/** Of the operation with the same id. */
export interface End {
  readonly of: number
  readonly at: string
  readonly ms: number
  readonly output: Values
  /** It failed: it may have taken effect, but not after this. */
  readonly failed?: true
}

export class History {
  readonly #file: number
  #operations = 0

  constructor(path: string) {
    this.#file = openSync(path, 'a')
  }

  /**
   * @param since when it began, if that is earlier
   * @returns writes the end. Without one it may have taken effect, also later
   */
  begin(
    { object, model }: Subject,
    client: number,
    input: Values,
    since = now(),
  ): (output: Values, failed?: true) => void {
    this.#operations += 1
    const id = this.#operations
    this.#write({ id, object, model, client, ...since, input } satisfies Beginning)
    return (output, failed) => this.#write({ of: id, ...now(), output, ...(failed && { failed }) } satisfies End)
  }

  async record<T>(
    subject: Subject,
    client: number,
    input: Values,
    work: () => Promise<T>,
    outputOf: (answer: T) => Values,
  ): Promise<T> {
    const end = this.begin(subject, client, input)
    try {
      const answer = await work()
      end(outputOf(answer))
      return answer
    } catch (error) {
      end({}, true)
      throw error
    }
  }

  #write(line: Beginning | End): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`)
  }
}

export function now(): { readonly at: string; readonly ms: number } {
  return { at: String(process.hrtime.bigint()), ms: Date.now() }
}
