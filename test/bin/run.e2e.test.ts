/** How a process of ours ends: in order, at once when it is asked twice, and with a line for what nobody catches. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import { until } from '../e2e/own-stack.ts'

const SCRIPT = fileURLToPath(new URL('./stopping-process.ts', import.meta.url))

async function start(...args: string[]) {
  const started = await startAnyway(...args)
  await until('it is ready', async () => started.said('ready'), 60)
  return started
}

async function startAnyway(...args: string[]) {
  const lines: string[] = []
  const child: ManagedProcess = await startProcess({
    name: 'stopping',
    command: process.execPath,
    args: ['--conditions=durable-source', '--import', 'tsx', SCRIPT, ...args],
    onLine: (line) => lines.push(line),
  })
  // What it said last has been read, too.
  const exited = Promise.all([child.exited, once(child.child, 'close')]).then(([exit]) => exit)
  const said = (event: string) => lines.some((line) => line.includes(`"event":"${event}"`))
  return { child: child.child, exited, lines, said }
}

describe('a process', () => {
  it('that loses Postgres while it starts says so in a line, and ends with 2', async () => {
    const { exited, lines } = await startAnyway('lost')
    expect(await exited).toEqual({ code: 2, signal: null })
    expect(lines).toEqual(['Postgres was lost (CONNECTION_CLOSED). `integrations doctor` says whether it is back.'])
  })

  it('that gets SIGTERM does what it has in hand, and ends with 0; the same signal twice in a row is one', async () => {
    const { child, exited, said } = await start('repeated')
    child.kill('SIGTERM')
    expect(await exited).toEqual({ code: 0, signal: null })
    expect([said('stopping'), said('repeated'), said('done')]).toEqual([true, true, true])
  })

  it('that is asked again a second later ends at once', async () => {
    const { child, exited, said } = await start('endless')
    child.kill('SIGINT')
    await until('it stops', async () => said('stopping'), 60)
    await sleep(1_100)
    child.kill('SIGINT')
    expect(await exited).toEqual({ code: 130, signal: null })
    expect([said('process.killed'), said('done')]).toEqual([true, false])
  })

  it('whose host left a rejection behind says so once and stops in order, with 1', async () => {
    const { exited, lines, said } = await start('rejection')
    expect(await exited).toEqual({ code: 1, signal: null })
    const told = lines.filter((line) => line.includes('process.unhandled_rejection'))
    expect(told.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ level: 'error', error: 'Error: left behind', stack: expect.stringContaining('at ') }),
    ])
    expect(said('done')).toBe(true)
  })

  it('whose host throws where nobody catches says so once and ends at once, with 1', async () => {
    const { exited, lines, said } = await start('exception')
    expect(await exited).toEqual({ code: 1, signal: null })
    const told = lines.filter((line) => line.includes('process.uncaught_exception'))
    expect(told).toHaveLength(1)
    expect(told[0]).toContain('thrown in a timer by postgres://[REDACTED]@db')
    expect(told[0]).not.toContain('hunter22')
    expect(said('done')).toBe(false)
  })
})
