import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { REDACTED, redactBody, secretsOf } from '../../src/framework/redaction.ts'
import { LARGE_LENGTH, redacted } from '../../src/framework/redaction-thread.ts'

const TOKEN = 'gho_open sesame+/="'

describe('a large body', () => {
  const body = JSON.stringify({ data: Array.from({ length: 60_000 }, (_, id) => ({ id, echoed: TOKEN })) })
  const secrets = secretsOf({ TOKEN })

  it('is redacted in a thread as it is here', async () => {
    expect(body.length).toBeGreaterThan(LARGE_LENGTH)
    const paths = [['data', '*', 'id']]
    const there = await redacted(body, 'redactBody', body, secrets, paths)
    expect(there === redactBody(body, secrets, paths)).toBe(true)
    expect(there).toContain(`{"id":"${REDACTED}","echoed":"${REDACTED}"}`)
  })

  it('leaves the event loop to others meanwhile, and many wait for a thread', async () => {
    let turns = 0
    let isOver = false
    const turn = (): void => {
      turns += 1
      if (!isOver) setImmediate(turn)
    }
    turn()
    await Promise.all([1, 2, 3, 4].map(() => redacted(body, 'redactBody', body, secrets)))
    isOver = true
    expect(turns).toBeGreaterThan(20)
  })

  it('fails with the thread, and the next one has a thread again', async () => {
    // Not JSON: the thread throws.
    const broken = `{${'x'.repeat(LARGE_LENGTH)}`
    const rules = { secrets, paths: [], maxBytes: null, isRaw: true }
    await expect(redacted(broken, 'redactStored', broken, rules)).rejects.toThrow(SyntaxError)
    expect(await redacted(body, 'redactStored', body, rules)).toContain(REDACTED)
  })

  it('has its thread in a bundle of one file, too, minified or with names kept', async () => {
    // That of tsx, which is no package of ours.
    const { build } = createRequire(createRequire(import.meta.url).resolve('tsx'))('esbuild') as {
      build(options: object): Promise<unknown>
    }
    const folder = await mkdtemp(join(tmpdir(), 'redaction-'))
    try {
      for (const options of [{ minify: true }, { keepNames: true }]) {
        const outfile = join(folder, 'host.mjs')
        const contents = `
          import { secretsOf } from './src/framework/redaction.ts'
          import { redacted } from './src/framework/redaction-thread.ts'
          const body = JSON.stringify({ a: ${JSON.stringify(TOKEN)}, b: 'x'.repeat(${LARGE_LENGTH}) })
          process.stdout.write((await redacted(body, 'redactBody', body, secretsOf([${JSON.stringify(TOKEN)}]))).slice(0, 20))`
        const resolveDir = fileURLToPath(new URL('../..', import.meta.url))
        const stdin = { contents, resolveDir, loader: 'ts' }
        await build({ stdin, outfile, bundle: true, platform: 'node', format: 'esm', ...options })
        const { stdout } = await promisify(execFile)(process.execPath, [outfile])
        expect(stdout).toBe('{"a":"[REDACTED]","b')
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
