/** What acts on many webhooks have in common: replaying, dismissing, and `retry` of a group. */
import { z } from 'zod'
import type { CommandContext } from '../command.ts'
import { kebab } from '../command.ts'
import type { Values } from '../fields.ts'
import { flag, id, optional, period, text, whole, whose } from '../fields.ts'
import { inOrder } from '../listing.ts'
import { Refused } from '../refused.ts'
import { rowId } from '../shapes.ts'

const DEFAULT_LIMIT = 1_000

/** Fields that choose webhooks. */
export const CHOICE = {
  ...whose,
  delivery: optional(id('only the events of this delivery, as `part_of` names it')),
  event: optional(text('only of this event type', 'type')),
  ...period('stored'),
  limit: optional(whole(`the most webhooks to take, the oldest first; default ${DEFAULT_LIMIT}`)),
  dryRun: flag('only count, and name the first ten'),
}

export const PreviewOfMany = z
  .object({ count: z.int(), ids: z.array(rowId), integrations: z.int(), more: z.boolean() })
  .describe('With `dry_run`. `ids` are the first ten; `more`: the limit leaves some out')

type Chosen = Partial<Values<typeof CHOICE>> & { readonly id?: number | undefined }

/** @throws Refused unless there is either an id or a choice */
export function checkChoice({ id, ...choice }: Chosen): void {
  const [chosen] = Object.entries(choice).find(([, value]) => value !== undefined && value !== false) ?? []
  if (id !== undefined && chosen !== undefined)
    throw new Refused('usage', `Give an id or options that choose, not both: ${id} and --${kebab(chosen)} were given.`)
  if (id === undefined && chosen === undefined) {
    const options = Object.keys(choice).map((name) => `--${kebab(name)}`)
    const last = options.pop()
    throw new Refused('usage', `Give the id of a webhook, or choose many by ${options.join(', ')} or ${last}.`)
  }
  inOrder(choice)
}

export const moreThan = (limit = DEFAULT_LIMIT): string => `There are more than ${limit}; --limit takes more.`

export const webhooks = (n: number): string => (n === 1 ? '1 webhook' : `${n.toLocaleString('en')} webhooks`)

export const integrationsOf = (n: number): string =>
  n === 1 ? '1 integration' : `${n.toLocaleString('en')} integrations`

/** Notes how many webhooks of each integration were changed, also where the act was broken off. */
export async function notedCounts<Result>(
  { note }: Pick<CommandContext, 'note'>,
  action: string,
  act: (onChanged: (webhooks: readonly { readonly integrationId: number }[]) => void) => Promise<Result>,
): Promise<Result> {
  const counts = new Map<number, number>()
  try {
    return await act((changed) => {
      for (const { integrationId: id } of changed) counts.set(id, (counts.get(id) ?? 0) + 1)
    })
  } finally {
    // At once: where Postgres is away, each waits for it, and the reason is told only after them.
    await Promise.all([...counts].map(([id, count]) => note(id, `${action} ${webhooks(count)}`)))
  }
}

/** Says how many wait: a person enables what its health has disabled, and then the inbox takes them. */
export const waits = ({ waiting }: { readonly waiting: number }): string =>
  waiting === 0 ? '' : ` ${waiting} of them will wait: their integration is disabled by its health until it is enabled.`

/** Such as `12 webhooks of 3 integrations (1, 2, ...)`. */
export function chosenText({
  count,
  ids,
  integrations,
}: {
  readonly count: number
  readonly ids: readonly number[]
  readonly integrations: number
}): string {
  return `${webhooks(count)} of ${integrationsOf(integrations)} (${ids.join(', ')}${count > ids.length ? ', ...' : ''})`
}
