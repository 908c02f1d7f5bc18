/**
 * The sandbox as a process of its own: prints `{"url": "..."}` on one line once it listens.
 *
 *   tsx sandbox/github/main.ts [--port 4010] [--host 127.0.0.1] [--token …] [--entries 340] [--rate-limit 5000]
 */
import { parseArgs } from 'node:util'
import { SANDBOX_TOKEN, startGithubSandbox } from './server.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    token: { type: 'string', default: SANDBOX_TOKEN },
    entries: { type: 'string', default: '340' },
    'rate-limit': { type: 'string', default: '5000' },
  },
})

const sandbox = await startGithubSandbox({
  port: wholeNumber('port', values.port),
  host: values.host,
  token: values.token,
  entries: wholeNumber('entries', values.entries),
  rateLimit: wholeNumber('rate-limit', values['rate-limit']),
})

let isClosing = false
async function close(): Promise<void> {
  if (isClosing) return
  isClosing = true
  await sandbox.close()
  process.exit(0)
}
process.once('SIGTERM', close)
process.once('SIGINT', close)
// Only with an IPC channel: the parent died, or let go of us.
process.once('disconnect', close)

console.log(JSON.stringify({ url: sandbox.url }))

function wholeNumber(name: string, value: string): number {
  if (!/^\d+$/.test(value)) throw new Error(`--${name} must be a whole number, not "${value}"`)
  return Number(value)
}
