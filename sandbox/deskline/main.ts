/**
 * Deskline as a process of its own: prints one line of JSON with its url and its client once it listens.
 *
 *   tsx sandbox/deskline/main.ts [--port 4020] [--host 127.0.0.1] [--redirect-uri …] [--tickets 240] [--rate-limit 300] [--token-seconds 3600]
 */
import { parseArgs } from 'node:util'
import { DESKLINE_CLIENT, startDesklineSandbox } from './server.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    'redirect-uri': { type: 'string', multiple: true, default: [] },
    tickets: { type: 'string', default: '240' },
    'rate-limit': { type: 'string', default: '300' },
    'token-seconds': { type: 'string', default: '3600' },
  },
})

const deskline = await startDesklineSandbox({
  port: wholeNumber('port', values.port),
  host: values.host,
  redirectUris: values['redirect-uri'],
  tickets: wholeNumber('tickets', values.tickets),
  rateLimit: wholeNumber('rate-limit', values['rate-limit']),
  tokenSeconds: wholeNumber('token-seconds', values['token-seconds']),
})

let isClosing = false
async function close(): Promise<void> {
  if (isClosing) return
  isClosing = true
  await deskline.close()
  process.exit(0)
}
process.once('SIGTERM', close)
process.once('SIGINT', close)
// Only with an IPC channel: the parent died, or let go of us.
process.once('disconnect', close)

console.log(JSON.stringify({ url: deskline.url, clientId: DESKLINE_CLIENT.id, clientSecret: DESKLINE_CLIENT.secret }))

function wholeNumber(name: string, value: string): number {
  if (!/^\d+$/.test(value)) throw new Error(`--${name} must be a whole number, not "${value}"`)
  return Number(value)
}
