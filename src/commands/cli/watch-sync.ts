/** Watches a sync run until it ends. Rule: docs/commands.md, "sync-progress". */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Integrations } from '../../create-integrations.ts'
import { streamOption } from '../../syncs/stream-rules.ts'
import type { CommandContext } from '../command.ts'
import { Interrupted, isUnanswered } from './failure.ts'
import type { SyncProgress } from './progress-line.ts'
import { progressLine } from './progress-line.ts'
import type { RunDocument } from './sync-run.ts'
import { runDocument } from './sync-run.ts'

/** How often a run is asked: often enough for an eye, and seldom enough for its worker. */
const EVERY_MS = 500

/** Whose run it is. */
export interface Whose {
  readonly id: number
  /** Needed where its provider has several. */
  readonly stream: string | undefined
}

export interface Watching {
  /** The newest run before the one that is watched; null: there was none, or it may be the one that is watched. */
  readonly after: number | null
  readonly everyMs?: number
}

/**
 * Shows how far the run of an integration is until it has ended. Ctrl-C ends the watching; the run goes on.
 *
 * @returns how it ended; null when there was none: nothing was to be done, or it was held and let go
 */
export async function watchSync(
  context: CommandContext,
  whose: Whose,
  { after, everyMs = EVERY_MS }: Watching,
): Promise<RunDocument | null> {
  const { integrations, terminal, json, signal, warn } = context
  const line = json ? null : progressLine(terminal)
  const say = (text: string): void => {
    line?.clear()
    warn(text)
  }
  const leave = (): void =>
    say(
      `The run goes on. \`integrations sync-progress ${whose.id}${streamOption(whose.stream)} --watch\` shows it again.`,
    )
  signal.addEventListener('abort', leave, { once: true })
  try {
    let syncLogId: number | null = null
    let isAnswered = true
    for (;;) {
      const progress = await asked(integrations, whose)
      // It came too late: the person has left.
      if (signal.aborted) throw new Interrupted()
      if (progress instanceof Error) {
        // A worker that starts again, or a server: the run survives both, and so does this.
        if (isAnswered) say(`${progress.message} The run is asked again until it answers.`)
        isAnswered = false
      } else {
        isAnswered = true
        syncLogId ??= progress?.syncLogId ?? null
        if (progress === null || isOver(progress, syncLogId)) break
        line?.show(progress)
      }
      await pause(everyMs, signal)
    }
    line?.clear()
    return syncLogId === null ? newestAfter(integrations, whose, after) : newestRun(integrations, whose, syncLogId + 1)
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** The newest run of an integration, backfills left out. @param below only those of a lower id */
export async function newestRun(
  integrations: Integrations,
  { id, stream }: Whose,
  below?: number,
): Promise<RunDocument | null> {
  for await (const run of integrations.syncs.runs({ integrationId: id, stream, after: below }))
    if (run.operation === 'sync') return runDocument(run)
  return null
}

async function newestAfter(
  integrations: Integrations,
  whose: Whose,
  after: number | null,
): Promise<RunDocument | null> {
  const newest = await newestRun(integrations, whose)
  return newest !== null && newest.id > (after ?? 0) ? newest : null
}

/** The next run of the integration may have begun by the time that this one is asked again. */
function isOver(progress: SyncProgress, syncLogId: number | null): boolean {
  return progress.phase === 'done' || progress.syncLogId !== syncLogId
}

/** The error itself where Temporal or the worker does not answer. */
async function asked(integrations: Integrations, { id, stream }: Whose): Promise<SyncProgress | null | Error> {
  try {
    return await integrations.syncs.progress(id, { stream })
  } catch (error) {
    if (isUnanswered(error)) return error
    throw error
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal })
  } catch {
    // Only the signal ends it early.
    throw new Interrupted()
  }
}
