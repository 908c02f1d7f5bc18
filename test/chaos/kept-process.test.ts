import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { SOON } from '../support/soon.ts'
import { KeptProcess } from './kept-process.ts'

const pids: number[] = []
let kept: KeptProcess

beforeEach(() => {
  pids.length = 0
  const start = async () => {
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }))
    await once(child, 'spawn')
    const pid = child.pid as number
    pids.push(pid)
    return { pids: () => [pid], ready: Promise.resolve(), exited }
  }
  kept = new KeptProcess('sleeper', start, () => {})
})
afterEach(() => kept.stop())

it('is killed in the act, and another one comes up', async () => {
  let looks = 0
  await kept.killInTheAct(
    async () => ++looks === 3,
    async () => expect.unreachable(),
  )
  await kept.ready()
  expect([looks, pids.length]).toEqual([3, 2])
  expect(kept.ownEnds).toEqual([])
})

it('tells an end that it did not bring about', async () => {
  await kept.ready()
  process.kill(pids[0] as number, 'SIGTERM')
  await vi.waitUntil(() => pids.length === 2, SOON)
  expect(kept.ownEnds).toEqual([{ atMs: expect.any(Number), wasReady: true, exit: { code: null, signal: 'SIGTERM' } }])
})

it('says why it was not met in the act, and lives on', async () => {
  const work = kept.killInTheAct(
    async () => false,
    async () => 'what the rows are doing',
    { seconds: 0.2 },
  )
  await expect(work).rejects.toThrow('sleeper was not met in the act within 0.2 s.\nwhat the rows are doing')
  expect(pids).toHaveLength(1)
})
