import { randomBytes } from 'node:crypto'
import type { Command } from 'commander'
import { Argument } from 'commander'
import { generateEncryptionKey } from '../encryption.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { Interrupted } from './cli/failure.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { table } from './cli/table.ts'
import { Refused } from './refused.ts'

type Action = 'status' | 'generate' | 'rotate'

/** `integrations keys status|generate|rotate`. Keys are never arguments: other users see those. */
export function keysCommand(frame: Frame): Command {
  const status = frame.action(showStatus, { needs: 'nothing' })
  return frame
    .command('keys', 'Shows, makes and rotates the keys that encrypt credentials.', [
      'integrations keys status',
      'integrations keys generate',
      'integrations keys rotate --dry-run',
      'integrations keys rotate',
    ])
    .addArgument(
      new Argument(
        '<action>',
        'status: which key wrote how many rows; generate: a new key; rotate: re-encrypt all',
      ).choices(['status', 'generate', 'rotate']),
    )
    .option('--dry-run', 'with rotate: only count', false)
    .action((action: Action, options: { dryRun: boolean }, command: Command) => {
      if (options.dryRun && action !== 'rotate')
        throw new Refused('usage', `--dry-run goes with \`keys rotate\`, it was given with \`keys ${action}\`.`)
      const run = {
        status,
        generate: frame.actionWithoutHost(generate),
        rotate: frame.action(rotate, { stopsItself: true }),
      }
      return run[action](options, command)
    })
}

async function showStatus({ integrations, warn }: CommandContext): Promise<Outcome> {
  // That the ring does not fit is what somebody may be looking for.
  await integrations.ready().catch((error: unknown) => {
    if (!isIntegrationsError(error, 'encryption_key_mismatch')) throw error
    warn(error.message)
  })
  const status = await integrations.admin.keys.status()
  return { document: documentOf(status), text: textOf(status) }
}

/** A new entry for the ring under an id of its own. It is the result, so it is printed. */
async function generate(): Promise<Outcome> {
  const kid = `k${new Date().toISOString().slice(0, 10).replaceAll('-', '')}-${randomBytes(3).toString('hex')}`
  const key = generateEncryptionKey(kid)
  return { document: { kid, key }, text: key }
}

async function rotate(
  { integrations, progress, signal }: CommandContext,
  { dryRun }: { dryRun: boolean },
  ..._words: unknown[]
): Promise<Outcome> {
  const rotation = await integrations.admin.keys.rotate({
    dryRun,
    signal,
    onProgress: ({ done, total }) => progress(`${done} of ${total}`),
  })
  // What is done is done, but nobody may take half a rotation for a whole one.
  if (signal.aborted) throw new Interrupted()
  const { reencrypted, failed } = rotation
  const said = dryRun ? `Would re-encrypt: ${reencrypted}.` : `Re-encrypted: ${reencrypted}.`
  return {
    document: { ...documentOf(rotation), reencrypted, failed },
    text: `${said}${failed > 0 ? ` Failed: ${failed}.` : ''}\n${textOf(rotation)}`,
    exitCode: failed > 0 ? 1 : 0,
  }
}

type Status = Awaited<ReturnType<CommandContext['integrations']['admin']['keys']['status']>>

function documentOf({ primary, keys }: Status) {
  return { primary, keys: keys.map(({ kid, rows, inRing, removable }) => ({ kid, rows, in_ring: inRing, removable })) }
}

function textOf({ primary, keys }: Status): string {
  return table(
    ['Key', 'Writes', 'Rows', 'In ring', 'Removable'],
    keys.map(({ kid, rows, inRing, removable }) => [kid, kid === primary, rows, inRing, removable]),
  )
}
