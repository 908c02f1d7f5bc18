/** A Temporal server for one bench: the one at `TEMPORAL_ADDRESS`, else the dev server, in memory, as `npm start` sets it. */
import { randomBytes } from 'node:crypto'
import type { TemporalServer } from '../dev/temporal-server.ts'
import { findOrStartTemporalServer } from '../dev/temporal-server.ts'

/**
 * On a given server a bench has workflow ids and task queues of its own: its database begins with integration 1, as that of the
 * bench before it did, whose inboxes may still be there. What it starts from now on finds the prefix in the environment.
 */
export async function startBenchTemporal(): Promise<TemporalServer> {
  let isUp = false
  const server = await findOrStartTemporalServer({
    port: 0,
    uiPort: null,
    // Getting one may take minutes and says how it goes; what the server itself says is not for a bench's output.
    log: (line) => {
      if (!isUp && /download|install|build/i.test(line)) console.error(line)
    },
  })
  isUp = true
  if (server.pid === null) {
    console.error(`on the Temporal server at ${server.address}`)
    process.env.INTEGRATIONS__CACHE_PREFIX = `bench-${randomBytes(4).toString('hex')}`
  }
  return server
}
