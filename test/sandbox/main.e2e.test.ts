import type { ChildProcess } from 'node:child_process'
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'

const MAIN = fileURLToPath(new URL('../../sandbox/github/main.ts', import.meta.url))
const NODE_OPTIONS = ['--import', 'tsx']

let child: ChildProcess | undefined
afterEach(() => {
  child?.kill('SIGKILL')
})

async function announcedUrl(process: ChildProcess): Promise<string> {
  if (process.stdout === null) throw new Error('The process has no standard output')
  const [line] = (await once(createInterface(process.stdout), 'line')) as [string]
  return (JSON.parse(line) as { url: string }).url
}

describe('the sandbox as a process', () => {
  it('prints its address, lets the given token in, and ends on SIGTERM', async () => {
    child = spawn(process.execPath, [...NODE_OPTIONS, MAIN, '--port', '0', '--token', 'mine', '--entries', '12'])
    const url = await announcedUrl(child)
    const response = await fetch(`${url}/user`, { headers: { authorization: 'Bearer mine' } })
    expect(response.status).toBe(200)
    expect(await (await fetch(`${url}/_sandbox/health`)).json()).toMatchObject({ status: 'ok', issues: 12 })
    child.kill('SIGTERM')
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  it('ends when the process that started it is gone', async () => {
    child = fork(MAIN, { execArgv: NODE_OPTIONS, silent: true })
    await announcedUrl(child)
    child.disconnect()
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  it('refuses a port that is no number', async () => {
    child = spawn(process.execPath, [...NODE_OPTIONS, MAIN, '--port', 'http'])
    const [code] = (await once(child, 'exit')) as [number]
    expect(code).toBe(1)
  })
})
