/** All 64 providers that make-provider can write: each compiles in both ways of resolving modules, and passes its tests. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { COMBINATIONS, compilerErrors, suiteResults, writeProvider } from './written-providers.ts'

const DATA = fileURLToPath(new URL('../../../.data/', import.meta.url))

let folder: string
const names: string[] = []
beforeAll(async () => {
  await mkdir(DATA, { recursive: true })
  folder = await mkdtemp(join(DATA, 'make-provider-'))
  for (const parts of COMBINATIONS) names.push(await writeProvider(folder, parts))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it.each(['nodenext', 'bundler'] as const)('compiles with module resolution %s', async (resolution) => {
  expect(await compilerErrors(folder, { resolution, compiler: 'typescript' })).toEqual([])
})

it('passes the conformance suite', async () => {
  const results = await suiteResults(folder, { conditions: ['durable-source'], workers: 2 })
  expect([...results.keys()].sort()).toEqual(names.map((name) => `${name}/acme.test.ts`).sort())
  for (const [path, { passed, failed }] of results) {
    expect(failed, path).toEqual([])
    expect(passed, path).toBeGreaterThan(0)
  }
})
