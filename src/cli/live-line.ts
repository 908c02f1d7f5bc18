/** A line of stderr that changes where it stands. */
import type { Terminal } from './frame.ts'
import { plain } from './plain.ts'

export interface LiveLine {
  show(text: string): void
  /** Leaves an empty line for what comes next. */
  clear(): void
}

/** To the start of the line, and erase to its end: ECMA-48, EL. */
const ERASE_LINE = '\r\u001b[K'

/** For a terminal that somebody looks at. */
export function liveLine({ err, columns }: Pick<Terminal, 'err' | 'columns'>): LiveLine {
  return {
    // The last column stays free: some terminals go on to the next line at once.
    show: (text) => err(ERASE_LINE + plain(text).slice(0, columns() - 1)),
    clear: () => err(ERASE_LINE),
  }
}
