/**
 * `npm start` and `npm run demo`: the whole system on one machine, with nothing else installed.
 *
 * What it takes: dev/start-arguments.ts.
 */
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { devLogin } from '../src/api/middleware.ts'
import { shellWord } from '../src/framework/shell-word.ts'
import { runDemo, summaryTable } from './demo.ts'
import { acquireRunLock } from './lock.ts'
import { createChecklist, createNarrator } from './narrator.ts'
import { removeDataFolder } from './postgres-folder.ts'
import { createSupervisor, stopOnSignals } from './processes.ts'
import type { Stack } from './stack.ts'
import { PREFERRED_PORTS, startStack } from './stack.ts'
import { readStartArguments, USAGE } from './start-arguments.ts'
import { keepTrafficGoing } from './traffic.ts'

/** How long Ctrl-C waits for the step of a start that is under way. */
const LAST_STEP_MS = 3_000

const given = readStartArguments(process.argv.slice(2), process.env)
if (given.kind === 'help') {
  process.stdout.write(`${USAGE}\n`)
  process.exit(0)
}
if (given.kind === 'refused') {
  process.stderr.write(`${given.reason}\n`)
  process.exit(2)
}
const { isDemo, isSteady } = given
const folder = resolve(given.folder ?? (isDemo ? join('.data', 'demo') : '.data'))
/** In which `npm run cli` looks. */
const isUsualFolder = folder === resolve('.data')
const COMMANDS = `npm run cli --${isUsualFolder ? '' : ` --data ${shellWord(folder)}`}`
const print = (line: string): void => console.log(line)
let wasStopped = false

const exitCode = await main()
// After a signal alone: a refusal, or a demo, has said how it ends.
if (wasStopped) print('stopped')
process.exit(exitCode)

async function main(): Promise<number> {
  const outcome = await acquireRunLock({ folder, log: print })
  if (outcome.kind === 'running') {
    const { pid, urls, ended } = outcome
    const isUp = Object.keys(urls).length > 0
    print(
      isUp ? `It is running already (pid ${pid}):` : `It is starting already (pid ${pid}): it will show its addresses.`,
    )
    printUrls(urls)
    if (ended.length === 0) return 0
    const names = ended.map((child) => `${child.name} (pid ${child.pid})`).join(', ')
    print('')
    print(`These of its processes have ended: ${names}. What needs them waits, and nothing is lost.`)
    print(`Stop it, by Ctrl-C in its terminal or \`kill ${pid}\`, then start again.`)
    return 1
  }
  const { lock } = outcome
  const supervisor = createSupervisor({ log: print })
  supervisor.own('lock', async () => lock.release())
  let ended: (code: number) => void = () => {}
  const interrupted = new Promise<number>((done) => {
    ended = done
  })
  stopOnSignals(supervisor, {
    log: print,
    exit: (code) => {
      wasStopped = code === 0
      ended(code)
    },
  })
  try {
    // Each demo begins with nothing, so that its numbers are those of this run.
    if (isDemo) {
      removeDataFolder(join(folder, 'postgres'))
      for (const name of ['temporal.db', 'temporal.db-shm', 'temporal.db-wal', 'encryption-keys'])
        rmSync(join(folder, name), { force: true })
    }
    print(isDemo ? 'Durable Integrations: demo' : 'Durable Integrations: starting')
    const narrator = createNarrator(print, COMMANDS)
    let isUp = false
    const early: (() => void)[] = []
    const starting = startStack({
      folder,
      supervisor,
      lock,
      checklist: createChecklist(print),
      commands: COMMANDS,
      // The demo has ports and a timetable of its own: its syncs start when it says so.
      ...(isDemo ? { anyPorts: true, env: demoEnvironment() } : {}),
      // The checklist comes first; then what the processes had to say meanwhile.
      onLine: (source, line) => {
        const tell = (): void => narrator.line(source, line)
        if (isUp) tell()
        else early.push(tell)
      },
    })
    const stack = await Promise.race([starting, interrupted])
    if (typeof stack === 'number') {
      // What the step under way has started is stopped as soon as it is there. A step that builds a server is not waited for.
      await Promise.race([starting.catch(() => {}), sleep(LAST_STEP_MS)])
      return stack
    }
    const urls = urlsOf(stack)
    lock.setUp({ urls, environment: stack.environment })
    print('')
    printUrls(urls)
    print('')
    if (isDemo) {
      isUp = true
      for (const tell of early) tell()
      return await Promise.race([interrupted, finishDemo(stack)])
    }
    if (new URL(stack.apiUrl).port !== String(PREFERRED_PORTS.api))
      print(`Port ${PREFERRED_PORTS.api} is taken: where the docs name it, take the address of the API.`)
    print(`Ctrl-C stops it. Try \`kill -9 ${stack.worker.pid}\`, the worker: another is started, and nothing is lost.`)
    print('')
    isUp = true
    for (const tell of early) tell()
    const traffic = new AbortController()
    supervisor.own('traffic', async () => traffic.abort())
    keepTrafficGoing(stack, {
      signal: traffic.signal,
      isSteady,
      report: (line) => narrator.line('traffic', line),
    }).catch((error: unknown) => {
      if (!supervisor.stopping) print(`traffic: ${error instanceof Error ? error.message : String(error)}`)
    })
    return await interrupted
  } catch (error) {
    if (supervisor.stopping) return await interrupted
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    return 1
  } finally {
    await supervisor.stop()
  }
}

async function finishDemo(stack: Stack): Promise<number> {
  const summary = await runDemo(stack, (line) => print(`\n== ${line}`))
  print('')
  print(summaryTable(summary))
  print('')
  print(JSON.stringify(summary))
  return summary.ok ? 0 : 1
}

function urlsOf(stack: Stack): Record<string, string> {
  return {
    Dashboard: `${stack.apiUrl}${devLogin(stack.integrations)}`,
    API: stack.apiUrl,
    Commands: `${COMMANDS} --help`,
    ...(stack.temporalUi === null ? {} : { 'Temporal UI': stack.temporalUi }),
    'Temporal server': stack.temporalAddress,
    ...(stack.temporalBinary === null
      ? {}
      : { 'Temporal CLI': `${shellWord(stack.temporalBinary)} --address ${stack.temporalAddress}` }),
    Webhooks: `${stack.apiUrl}/integrations/github/${stack.integrationId}/webhook`,
    'Sandbox provider': stack.sandboxUrl,
    Postgres: stack.psql,
  }
}

function printUrls(urls: Readonly<Record<string, string>>): void {
  for (const [name, url] of Object.entries(urls)) print(`  ${name.padEnd(18)} ${url}`)
}

/** On a server that was there already, the workflows of an earlier demo have the usual names. */
function demoEnvironment(): Record<string, string> {
  return {
    INTEGRATIONS__SCHEDULES__ENABLED: 'false',
    ...(process.env.TEMPORAL_ADDRESS ? { INTEGRATIONS__CACHE_PREFIX: `demo-${randomBytes(4).toString('hex')}` } : {}),
  }
}
