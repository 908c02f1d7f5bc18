/** A stand-in that does not come up is an error of its own, and no process is left of it. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startStripePeer } from './stripe-peer.ts'

const LISTENING = /^Listening at (127\.0\.0\.1:\d+)$/

const start = (script: string, startSeconds?: number) =>
  startStripePeer({
    name: 'stand-in',
    command: '/bin/sh',
    args: ['-c', script],
    listening: LISTENING,
    ...(startSeconds === undefined ? {} : { startSeconds }),
  })

const messageOf = (started: Promise<unknown>): Promise<string> =>
  started.then(
    () => expect.unreachable('it does not listen'),
    (error: Error) => error.message,
  )

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

it('that does not listen in time is stopped, and what it said is told', async () => {
  const message = await messageOf(start('echo "waiting as $$"; exec sleep 600', 2))
  expect(message).toMatch(/^stand-in does not listen after 2 s: waiting as \d+$/)
  expect(isThere(Number(/\d+$/.exec(message)?.[0]))).toBe(false)
})

it('that ends before it listens is told with what it said', async () => {
  expect(await messageOf(start('echo "no such option"; exit 3'))).toMatch(
    /^stand-in ended with \{"code":3,"signal":null\}: no such option$/,
  )
})

it('that listens is known by its address, and is gone once it is closed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'stripe-peer-'))
  try {
    const peer = await start(`echo $$ > '${folder}/pid'; echo "Listening at 127.0.0.1:4020"; exec sleep 600`)
    expect(peer.url).toBe('http://127.0.0.1:4020')
    const pid = Number(await readFile(join(folder, 'pid'), 'utf8'))
    expect(isThere(pid)).toBe(true)
    await peer.close()
    expect(isThere(pid)).toBe(false)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
