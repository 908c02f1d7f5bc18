import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { generateEncryptionKey } from '../../encryption.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import { Interrupted } from '../cli/failure.ts'
import { table } from '../cli/table.ts'
import type { CommandContext, Said } from '../command.ts'
import { command, route, said } from '../command.ts'
import { choice, flag } from '../fields.ts'
import { Refused } from '../refused.ts'
import { all } from '../shapes.ts'

/** Keys are never arguments: other users see those. */
export const keys = command({
  name: 'keys',
  topic: 'Set up',
  summary: 'Shows, makes and rotates the keys that encrypt credentials.',
  examples: [
    'integrations keys status',
    'integrations keys generate',
    'integrations keys rotate --dry-run',
    'integrations keys rotate',
  ],
  places: ['action'],
  needs: 'host',
  stopsItself: true,
  fields: {
    action: choice(
      'status: which key wrote how many rows; generate: a new key; rotate: re-encrypt all',
      ['status', 'generate', 'rotate'],
      'action',
    ),
    dryRun: flag('with rotate: only count'),
  },
  routes: [
    route({
      method: 'get',
      path: '/keys',
      summary: 'Shows which encryption key wrote how many rows; no key itself.',
      fields: {},
      output: z.object({
        primary: z.string(),
        keys: z.array(z.object({ kid: z.string(), rows: z.int(), ...all(z.boolean(), 'in_ring', 'removable') })),
      }),
      run: async ({ integrations }) => documentOf(await integrations.admin.keys.status()),
    }),
  ],
  check({ action, dryRun }) {
    if (dryRun && action !== 'rotate')
      throw new Refused('usage', `--dry-run goes with \`keys rotate\`, it was given with \`keys ${action}\`.`)
  },
  alone: ({ action }) => (action === 'generate' ? generated() : undefined),
  run: (context, { action, dryRun }) => (action === 'rotate' ? rotated(context, dryRun) : status(context)),
  ...said,
})

/** A new entry for the ring under an id of its own. It is the result, so it is printed. */
function generated(): { readonly result: Said; readonly text: string } {
  const kid = `k${new Date().toISOString().slice(0, 10).replaceAll('-', '')}-${randomBytes(3).toString('hex')}`
  const key = generateEncryptionKey(kid)
  return { result: { document: { kid, key }, text: key }, text: key }
}

async function status({ integrations, warn }: CommandContext): Promise<Said> {
  // That the ring does not fit is what somebody may be looking for.
  await integrations.ready().catch((error: unknown) => {
    if (!isIntegrationsError(error, 'encryption_key_mismatch')) throw error
    warn(error.message)
  })
  const found = await integrations.admin.keys.status()
  return { document: documentOf(found), text: textOf(found) }
}

async function rotated({ integrations, note, progress, signal }: CommandContext, dryRun: boolean): Promise<Said> {
  await integrations.ready()
  const rotation = await integrations.admin.keys.rotate({
    dryRun,
    signal,
    onProgress: ({ done, total }) => progress(`${done} of ${total}`),
  })
  if (!dryRun && rotation.reencrypted > 0) await note(null, 'keys rotate', 'keys')
  // What is done is done, but half a rotation must not look like a whole one.
  if (signal.aborted) throw new Interrupted()
  const { reencrypted, failed } = rotation
  const counts = `${dryRun ? 'Would re-encrypt' : 'Re-encrypted'}: ${reencrypted}.${failed > 0 ? ` Failed: ${failed}.` : ''}`
  return {
    document: { ...documentOf(rotation), reencrypted, failed },
    text: `${counts}\n${textOf(rotation)}`,
    hasFailed: failed > 0,
  }
}

type Status = Awaited<ReturnType<CommandContext['integrations']['admin']['keys']['status']>>

export type KeysDocument = ReturnType<typeof documentOf>
const documentOf = ({ primary, keys: uses }: Status) => ({
  primary,
  keys: uses.map(({ kid, rows, inRing, removable }) => ({ kid, rows, in_ring: inRing, removable })),
})

const textOf = ({ primary, keys: uses }: Status): string =>
  table(
    ['Key', 'Writes', 'Rows', 'In ring', 'Removable'],
    uses.map((use) => [use.kid, use.kid === primary, use.rows, use.inRing, removalOf(use)]),
  )

/** One that has just been added is needed by no row, either. */
function removalOf({ removable, isNew }: Status['keys'][number]): boolean | string {
  return removable && isNew ? 'yes (not in use yet)' : removable
}
