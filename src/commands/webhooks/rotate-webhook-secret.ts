import { z } from 'zod'
import { textReader } from '../cli/given-values.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { id, optional, text } from '../fields.ts'
import { moment, rowId } from '../shapes.ts'

/** Longer than any secret that a provider makes. */
const MAX_SECRET = 4_096

const Rotated = z.object({
  integration_id: rowId,
  secret: z.string().nullable().describe('The new one, this once; null: the caller gave it'),
  old_valid_until: moment.nullable(),
})

export const rotateWebhookSecret = command({
  name: 'rotate-webhook-secret',
  topic: 'Webhooks',
  summary: 'Gives an integration a new webhook secret; the old one stays valid for a while.',
  examples: [
    'integrations rotate-webhook-secret 7',
    'pass show github-webhook | integrations rotate-webhook-secret 7 --secret -',
  ],
  places: ['id'],
  workflow: { none: 'its result is a secret; a workflow history is kept for days, and many can read it' },
  fields: {
    id: id('of the integration'),
    secret: optional(
      text('the new one, as @file, env:NAME, or - for stdin; default a random one, printed once', 'source', MAX_SECRET),
    ),
  },
  reach: 'integration',
  output: Rotated,
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/rotate-webhook-secret',
      fields: {
        id: id('of the integration'),
        secret: optional(text('the new one; default a random one', 'text', MAX_SECRET)),
      },
      run: (context, { id, secret }) => rotate(context, id, secret),
    }),
  ],
  async run(context, { id, secret: source }) {
    if (source === undefined) return rotate(context, id)
    const given = await textReader(context.terminal.sources)('--secret', source, () =>
      context.warn(
        'The secret stands on the command line, where other users and the shell’s history see it. ' +
          'Better: --secret env:NAME, --secret @file, or --secret - for stdin.',
      ),
    )
    return rotate(context, id, given)
  },
  show({ integration_id: id, secret, old_valid_until: until }) {
    const old = until === null ? 'There was none before.' : `The old one is valid until ${until.toISOString()}.`
    return secret === null
      ? `Integration ${id} has its new secret. ${old}`
      : `${secret}\n${old} This one is shown once: give it to the provider.`
  },
})

async function rotate({ integrations, note }: CommandContext, id: number, given?: string) {
  const rotation = given === undefined ? {} : { secret: given }
  const { secret, oldValidUntil } = await integrations.webhooks.rotateSecret(id, rotation)
  const detail = oldValidUntil === null ? undefined : `the former secret is valid until ${oldValidUntil.toISOString()}`
  await note(id, 'rotate-webhook-secret', undefined, detail)
  return { integration_id: id, secret: given === undefined ? secret : null, old_valid_until: oldValidUntil }
}
