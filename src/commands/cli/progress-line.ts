/** How far a sync run is, in one line. Rule: docs/commands.md, "sync-progress". */
import type { Integrations } from '../../create-integrations.ts'
import { plain } from './plain.ts'
import type { Terminal } from './terminal.ts'

export type SyncProgress = NonNullable<Awaited<ReturnType<Integrations['syncs']['progress']>>>

const BAR_WIDTH = 20

/** @param bar draws how much is done, too */
export function progressText(progress: SyncProgress, { bar }: { readonly bar: boolean }): string {
  const { phase, isPaused, unchanged, succeeded, failed, waiting, nextAttemptAt, perSecond, secondsLeft, intakeFrom } =
    progress
  const done = succeeded + failed
  const items = progress.listed === null ? null : progress.listed - unchanged
  const isMoving = !isPaused && items !== null && done < items
  return [
    isPaused && phase !== 'held' && 'paused',
    items === null ? BEFORE_THE_ITEMS[phase] : counted(done, items, bar),
    unchanged > 0 && `${unchanged} unchanged`,
    phase === 'finalising' && 'finalising',
    failed > 0 && `${failed} failed`,
    waiting > 0 && `${waiting} waiting${nextAttemptAt === null ? '' : `, next at ${nextAttemptAt.slice(11, 19)}Z`}`,
    isMoving && perSecond !== null && `${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`,
    isMoving && secondsLeft !== null && `${span(secondsLeft)} left`,
    intakeFrom !== null && `waits for the rate limit until ${intakeFrom}`,
    // A worker of an earlier release does not say it.
    progress.listingFailure ? `listing failed in ${listingFailureText(progress.listingFailure)}` : false,
    phase !== 'done' && progress.lastFailure !== null && `last: ${failureText(progress.lastFailure)}`,
  ]
    .filter((part) => part !== false)
    .join('  ')
}

export function failureText({ itemId, attempt, error }: NonNullable<SyncProgress['lastFailure']>): string {
  return `item ${itemId}, attempt ${attempt}: ${error}`
}

type ListingFailure = Pick<NonNullable<SyncProgress['listingFailure']>, 'attempt' | 'error' | 'nextAttemptAt'>

export function listingFailureText({ attempt, error, nextAttemptAt }: ListingFailure): string {
  return `call ${attempt}: ${error}${nextAttemptAt === null ? '' : `; tried again at ${nextAttemptAt.slice(11, 19)}Z`}`
}

const BEFORE_THE_ITEMS: Readonly<Record<SyncProgress['phase'], string>> = {
  held: 'held: none starts until it is resumed',
  opening: 'opening',
  listing: 'listing',
  processing: 'processing',
  finalising: 'processing',
  done: 'done',
}

function counted(done: number, items: number, bar: boolean): string {
  const part = items === 0 ? 1 : Math.min(1, done / items)
  const filled = Math.floor(part * BAR_WIDTH)
  const drawn = bar ? `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ` : ''
  return `${drawn}${Math.floor(part * 100)} %  ${done} of ${items}`
}

function span(seconds: number): string {
  if (seconds < 120) return `${Math.ceil(seconds)} s`
  const minutes = Math.ceil(seconds / 60)
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** What is new in a line for those who read it later; the rate is so each time. */
function figures(progress: SyncProgress): string {
  const { phase, isPaused, listed, succeeded, failed, waiting, intakeFrom, listingFailure } = progress
  return JSON.stringify([phase, isPaused, listed, succeeded, failed, waiting, intakeFrom, listingFailure?.attempt])
}

export interface ProgressLine {
  show(progress: SyncProgress): void
  /** Leaves an empty line for what comes next. */
  clear(): void
}

/** On a terminal one line that changes; otherwise a new one for each change of the figures, and no escape codes. */
export function progressLine({ isInteractive, err, columns }: Terminal): ProgressLine {
  if (isInteractive) {
    const line = liveLine({ err, columns })
    return { show: (progress) => line.show(progressText(progress, { bar: true })), clear: line.clear }
  }
  let last = ''
  return {
    show(progress) {
      const now = figures(progress)
      if (now === last) return
      last = now
      err(`${plain(progressText(progress, { bar: false }))}\n`)
    },
    clear: () => {},
  }
}

interface LiveLine {
  show(text: string): void
  /** Leaves an empty line for what comes next. */
  clear(): void
}

/** To the start of the line, and erase to its end: ECMA-48, EL. */
const ERASE_LINE = '\r\u001b[K'

/** One line of stderr that is rewritten in place. For an interactive terminal. */
export function liveLine({ err, columns }: Pick<Terminal, 'err' | 'columns'>): LiveLine {
  return {
    // The last column stays free: some terminals go on to the next line at once.
    show: (text) => err(ERASE_LINE + plain(text).slice(0, columns() - 1)),
    clear: () => err(ERASE_LINE),
  }
}
