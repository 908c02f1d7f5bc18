/**
 * The CRM of the tutorials as a process of its own: prints one line of JSON with its url once it listens.
 *
 *   tsx sandbox/crm/main.ts [--port 4030] [--host 127.0.0.1] [--api-key crm-key]
 */
import { parseArgs } from 'node:util'
import { CRM_API_KEY, startCrmSandbox } from './server.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    'api-key': { type: 'string', default: CRM_API_KEY },
  },
})
if (!/^\d+$/.test(values.port)) throw new Error(`--port must be a whole number, not "${values.port}"`)

const crm = await startCrmSandbox({ port: Number(values.port), host: values.host, apiKey: values['api-key'] })

let isClosing = false
async function close(): Promise<void> {
  if (isClosing) return
  isClosing = true
  await crm.close()
  process.exit(0)
}
process.once('SIGTERM', close)
process.once('SIGINT', close)
// Only with an IPC channel: the parent died, or let go of us.
process.once('disconnect', close)

console.log(JSON.stringify({ url: crm.url }))
