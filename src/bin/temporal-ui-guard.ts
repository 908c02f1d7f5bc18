/** The guard in front of Temporal's UI as a process of its own, for docker-compose.yml: `temporal-ui-guard.js --ui <host:port> --at <host:port>`. */
import { parseArgs } from 'node:util'
import { InvalidConfiguration } from '../framework/errors.ts'
import { runProcess } from './run.ts'
import { startUiGuard } from './ui-guard.ts'

await runProcess(async () => {
  const { values } = parseArgs({ options: { ui: { type: 'string' }, at: { type: 'string' } } })
  await startUiGuard(place('--ui', values.ui), place('--at', values.at))
  console.log(JSON.stringify({ event: 'ui_guard.ready', at: values.at, ui: values.ui }))
})

function place(key: string, text = ''): { host: string; port: number } {
  const [, host = '', port = ''] = /^(.+):(\d{1,5})$/.exec(text) ?? []
  if (host === '') throw new InvalidConfiguration([{ key, expected: 'host:port', received: JSON.stringify(text) }])
  return { host, port: Number(port) }
}
