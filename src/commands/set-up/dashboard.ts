import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { command } from '../command.ts'
import { text, whole, withDefault } from '../fields.ts'
import { Refused } from '../refused.ts'

const DEFAULT_PORT = 3001
const MAX_PORT = 65_535
/** As long as a session lasts. */
const TOKEN_MS = 8 * 3_600_000

export const dashboard = command({
  name: 'dashboard',
  topic: 'Set up',
  summary: 'Serves the dashboard alone, on this machine, and signs a browser in by the address that it prints.',
  examples: [
    'integrations dashboard',
    'DATABASE_URL=postgres://reader@db.internal/app integrations dashboard --port 0',
  ],
  workflow: { none: 'it serves where it is called' },
  stopsItself: true,
  fields: {
    port: withDefault(
      whole('where it listens; 0: a free one', { min: 0, max: MAX_PORT, placeholder: 'port' }),
      DEFAULT_PORT,
    ),
    host: withDefault(text('the interface it listens on', 'address'), '127.0.0.1'),
  },
  output: z.object({ url: z.string() }),
  async run({ integrations, serve, terminal, json, by, from, signal }, { port, host }) {
    if (serve === undefined) throw new Refused('usage', 'The dashboard is served by the command line alone.')
    const { tokens } = integrations.admin
    // A token of its own: what is done here stands in the audit under this name, and ends with the command.
    const { id, token } = await tokens.create({
      name: `${by.replaceAll(':', '-')}-${randomBytes(3).toString('hex')}`,
      scope: 'operate',
      expiresAt: new Date(Date.now() + TOKEN_MS),
      by,
      from,
    })
    try {
      const url = await serve(integrations, {
        host,
        port,
        token,
        signal,
        onReady: (address, login) => {
          const lines = `Dashboard: ${address}\nThis address signs a browser in: ${login}\nCtrl-C ends it.\n`
          if (json) terminal.err(lines)
          else terminal.out(lines)
        },
      })
      return { url }
    } finally {
      await tokens.revoke(id, { by, from })
    }
  },
  show: () => 'The dashboard has ended; its token is revoked.',
})
