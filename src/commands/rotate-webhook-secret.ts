import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { textReader } from './cli/given-values.ts'

/** `integrations rotate-webhook-secret <id>`: a new secret; the old one stays valid for a while. */
export function rotateWebhookSecretCommand(frame: Frame): Command {
  return frame
    .command(
      'rotate-webhook-secret',
      'Gives an integration a new webhook secret; the old one stays valid for a while.',
      [
        'integrations rotate-webhook-secret 7',
        'pass show github-webhook | integrations rotate-webhook-secret 7 --secret -',
      ],
    )
    .argument('<id>', 'id of the integration', integrationId)
    .option('--secret <source>', 'the new one, as @file, env:NAME, or - for stdin; default a random one, printed once')
    .action(
      frame.action(async ({ integrations, terminal, by, warn }, id: number, options: { secret?: string }) => {
        const read = textReader(terminal.sources)
        const given =
          options.secret === undefined
            ? undefined
            : await read('--secret', options.secret, () =>
                warn(
                  'The secret stands on the command line, where other users and the shell’s history see it. ' +
                    'Better: --secret env:NAME, --secret @file, or --secret - for stdin.',
                ),
              )
        const { secret, oldValidUntil } = await integrations.webhooks.rotateSecret(
          id,
          given === undefined ? {} : { secret: given },
        )
        await integrations.admin.operator.note(id, {
          token: by,
          action: 'rotate-webhook-secret',
          target: `integration:${id}`,
        })
        const until = oldValidUntil?.toISOString() ?? null
        const old = until === null ? 'There was none before.' : `The old one is valid until ${until}.`
        return {
          // Whoever gave it has it.
          document: { integration_id: id, secret: given === undefined ? secret : null, old_valid_until: until },
          text:
            given === undefined
              ? `${secret}\n${old} This one is shown once: give it to the provider.`
              : `Integration ${id} has its new secret. ${old}`,
        }
      }),
    )
}
