/** An act on the syncs of an integration, and its entry in the audit. Rule: docs/behaviour/audit.md, "What is written, and when". */
import { streamOption } from '../../syncs/stream-rules.ts'
import type { Whose } from '../cli/watch-sync.ts'
import type { CommandContext } from '../command.ts'

/**
 * Notes an act as it was asked for. Broken off, it notes each stream that it was done with: a stream that is paused stays so, and
 * pages know a pause by the audit.
 */
export async function notedStreams<Result>(
  { note }: Pick<CommandContext, 'note'>,
  { id, stream }: Whose,
  action: string,
  act: (onEach: (stream: string | null) => void) => Promise<Result>,
): Promise<Result> {
  const done: (string | null)[] = []
  let isWhole = false
  try {
    const result = await act((one) => void done.push(one))
    isWhole = true
    return result
  } finally {
    const noted = isWhole && done.length > 0 ? [stream] : done
    for (const one of noted) await note(id, `${action}${streamOption(one)}`)
  }
}
