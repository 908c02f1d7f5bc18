/**
 * What a start may be given, and how often a remembered one is tried.
 *
 * Rule: docs/behaviour/sync-scheduling.md, "Remembered starts".
 */
import { InvalidArgumentException } from '../framework/errors.ts'

/** When a run that does not begin at once begins. */
export type Wait = Required<Pick<StartSync, 'notBefore' | 'debounceSeconds'>>

export interface StartSync {
  /** One stream of the provider; default: all that it has. */
  readonly stream?: string | undefined
  /** The run does not begin before this moment: at most 30 days ahead. A past one changes nothing. */
  readonly notBefore?: Date | undefined
  /**
   * Seconds, 0 to 3,600. The run begins once no one has asked for this long, at the latest ten times this after the first ask.
   * 0, the default: at once.
   */
  readonly debounceSeconds?: number | undefined
}

/** What a start came to; with several streams, the first one's, and `streams` has each. */
export type SyncStart = StartKind & {
  /** Not there: the integration's own. */
  readonly stream?: string
  readonly streams?: readonly SyncStart[]
}

type StartKind =
  /** A run began. `runId` is its `batch_id`, and `metadata.run_id` of its log. */
  | { readonly kind: 'started'; readonly runId: string }
  /** A run lives. Another one follows it at once, however many asked. */
  | { readonly kind: 'remembered' }
  /** A run begins at this moment, or soon after. Later asks may move it. */
  | { readonly kind: 'later'; readonly at: Date }

const MAX_AHEAD_DAYS = 30
export const MAX_DEBOUNCE_SECONDS = 3_600
/** A stream of asks without an end pushes its run back by no more than this many times the wait. */
export const MAX_PUSHES = 10

/** Null: it begins at once. @throws InvalidArgumentException */
export function waitOf({ notBefore, debounceSeconds = 0 }: StartSync, now: Date): Wait | null {
  const latest = now.getTime() + MAX_AHEAD_DAYS * 86_400_000
  if (notBefore !== undefined && !(notBefore instanceof Date && notBefore.getTime() <= latest))
    throw new InvalidArgumentException(
      'notBefore',
      `a valid Date, at most ${MAX_AHEAD_DAYS} days ahead, is allowed, ${String(notBefore)} was given`,
    )
  if (!(debounceSeconds >= 0 && debounceSeconds <= MAX_DEBOUNCE_SECONDS))
    throw new InvalidArgumentException(
      'debounceSeconds',
      `a number from 0 to ${MAX_DEBOUNCE_SECONDS} is allowed, ${String(debounceSeconds)} was given`,
    )
  const ahead = notBefore !== undefined && notBefore > now ? notBefore : undefined
  return ahead === undefined && debounceSeconds === 0 ? null : { notBefore: ahead, debounceSeconds }
}

/** How often a process has tried a remembered start in vain, and when it tries again. */
export interface Tries {
  readonly count: number
  /** Milliseconds of the process's clock. */
  readonly nextAt: number
  readonly of: RememberedStart
}

export interface RememberedStart {
  /** Tells it from an earlier one of the same integration. */
  readonly askedAt: string
  /** Whether the integration's newest run is open. */
  readonly isOpen: boolean
}

/** A run that lives has its time. One that is over lives on for a moment, or for long: while it tells its listeners, or is paused. */
const OPEN_WAIT_MS = 30_000

/**
 * Whether a remembered start is tried now, and when it is next.
 *
 * @param before null: this process sees it for the first time
 * @param now milliseconds of the process's clock
 */
export function nextTry(before: Tries | null, of: RememberedStart, now: number): { tries: boolean; next: Tries } {
  const isFresh = before?.of.isOpen !== of.isOpen || before.of.askedAt !== of.askedAt
  if (of.isOpen && isFresh) return { tries: false, next: { count: 0, nextAt: now + OPEN_WAIT_MS, of } }
  if (!isFresh && now < before.nextAt) return { tries: false, next: before }
  const count = isFresh ? 0 : before.count
  const waitMs = of.isOpen ? OPEN_WAIT_MS : Math.min(OPEN_WAIT_MS, 1_000 * 2 ** Math.min(count, 5))
  return { tries: true, next: { count: count + 1, nextAt: now + waitMs, of } }
}
