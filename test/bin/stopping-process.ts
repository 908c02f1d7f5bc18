/** A process that ends as ours do, for run.e2e.test.ts: what it has in hand takes a while. `argv[2]` says what happens. */
import { setTimeout as sleep } from 'node:timers/promises'
import { onStop, runProcess } from '../../src/bin/run.ts'

const log = (level: string) => (fields: Record<string, unknown>) => console.log(JSON.stringify({ level, ...fields }))
const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
const WORK_MS = process.argv[2] === 'endless' ? 600_000 : 1_500

if (process.argv[2] === 'lost')
  await runProcess(() => Promise.reject(Object.assign(new Error('it was closed'), { code: 'CONNECTION_CLOSED' })))

const stopping = onStop(logger, (why) => {
  logger.info({ event: 'stopping', why })
  // From here it comes in time, however slow the machine is.
  if (process.argv[2] === 'repeated') {
    process.once('SIGTERM', () => logger.info({ event: 'repeated' }))
    process.kill(process.pid, 'SIGTERM')
  }
  void sleep(WORK_MS).then(() => {
    logger.info({ event: 'done' })
    process.exit(stopping.exitCode())
  })
})
setInterval(() => {}, 1_000)
logger.info({ event: 'ready' })
if (process.argv[2] === 'rejection') void Promise.reject(new Error('left behind'))
if (process.argv[2] === 'exception')
  setTimeout(() => {
    throw new Error('thrown in a timer by postgres://app:hunter22@db')
  }, 10)
