/** A bundle that is made before: what its file says, and what a worker refuses. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readBundle, shippedBundle } from '../../src/bundled-workflows.ts'
import { createWorkers } from '../../src/create-workers.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { runCommand } from '../commands/cli/run.ts'
import { testIntegrations } from '../support/integrations.ts'
import { silenceTemporal } from './stage.ts'

const DATA = fileURLToPath(new URL('../../.data', import.meta.url))

let folder: string
let text: string
let made: { sdk: string; workflows: string[] }
const at = (name: string): string => join(folder, name)

const bundle = (...words: string[]) =>
  runCommand(async () => expect.unreachable('no host is needed'), ['bundle-workflows', ...words])

beforeAll(async () => {
  silenceTemporal()
  // Where the packages are found from.
  await mkdir(DATA, { recursive: true })
  folder = await mkdtemp(join(DATA, 'bundle-'))
  const { exitCode, json } = await bundle('--out', at('made/bundle.js'), '--json')
  expect(exitCode).toBe(0)
  made = json() as typeof made
  text = await readFile(at('made/bundle.js'), 'utf8')
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('bundle-workflows', () => {
  it('writes all workflows into a folder that it makes, and a worker reads them', () => {
    expect(made.workflows).toEqual(expect.arrayContaining(Object.values(WORKFLOW)))
    const { code } = readBundle(at('made/bundle.js')) as { code: string }
    expect(text.endsWith(code)).toBe(true)
    expect(code).not.toContain('workflow bundle {"package"')
  })

  it("refuses a host's module that does not re-export ours", async () => {
    await writeFile(at('own.ts'), 'export async function own(): Promise<void> {}\n')
    const { exitCode, json } = await bundle('--out', at('own.js'), '--workflows', at('own.ts'), '--json')
    expect(exitCode).toBe(1)
    expect(json()).toMatchObject({
      error: {
        code: 'invalid_argument',
        message: expect.stringMatching(/does not export webhookInbox.*export \* from/),
      },
    })
    await expect(readFile(at('own.js'))).rejects.toThrow('ENOENT')
  })

  it.each([
    ['a module that is not there', () => ['--workflows', at('nowhere.ts'), '--out', at('x.js')], 'there is no'],
    ['a place that is a folder', () => ['--out', folder], "can't be written"],
  ])('refuses %s', async (_, words, message) => {
    const { exitCode, err } = await bundle(...words())
    expect(exitCode).toBe(1)
    expect(err).toContain(message)
  })
})

describe('a worker', () => {
  it.each([
    [
      'of another version of the package',
      () => text.replace(/"package":"[^"]+"/, '"package":"0.0.1"'),
      'made by durable-integrations 0.0.1',
    ],
    ['of another SDK', () => text.replace(/"sdk":"[^"]+"/, '"sdk":"1.0.0"'), 'made with the Temporal SDK 1.0.0'],
    [
      'that lacks a workflow of ours',
      () => text.replace('"webhookInbox"', '"another"'),
      'lacks our workflows webhookInbox',
    ],
    ['without its first line', () => text.slice(text.indexOf('\n') + 1), 'does not begin with the line'],
    ['whose first line is cut', () => text.slice(0, 60), 'does not begin with the line'],
  ])('refuses a file %s', async (_, content, received) => {
    await writeFile(at('bad.js'), content())
    expect(() => readBundle(at('bad.js'))).toThrow(
      expect.objectContaining({
        code: 'invalid_configuration',
        problems: [
          expect.objectContaining({ key: 'INTEGRATIONS_WORKFLOW_BUNDLE', received: expect.stringContaining(received) }),
        ],
      }),
    )
  })

  it('says of a file that is not there that it is not', () => {
    expect(() => readBundle(at('nowhere.js'))).toThrow(/INTEGRATIONS_WORKFLOW_BUNDLE.*nowhere\.js.*ENOENT/)
  })

  it('that runs from its sources takes nothing that was built', () => {
    expect(shippedBundle({ info: () => expect.unreachable('nothing is passed over') })).toBeNull()
  })

  it('passes over a bundle of the package that does not fit, and says why', async () => {
    await writeFile(at('shipped.js'), text.replace(/"sdk":"[^"]+"/, '"sdk":"1.0.0"'))
    const info = vi.fn()
    expect(shippedBundle({ info }, at('shipped.js'))).toBeNull()
    const why = expect.stringMatching(/shipped\.js, made with the Temporal SDK 1\.0\.0/)
    expect(info.mock.calls).toEqual([[{ event: 'worker.bundle_not_used', why }, expect.any(String)]])
  })

  it('warns when it is given a bundle beside a module', async () => {
    const test = testIntegrations('postgres://nobody@127.0.0.1:1/none')
    const both = { workflowBundlePath: at('nowhere.js'), workflowsPath: at('own.ts') }
    try {
      await expect(createWorkers(test.integrations, both)).rejects.toMatchObject({ code: 'invalid_configuration' })
      expect(test.lines.map(({ level, fields }) => [level, fields.event])).toEqual([
        ['warn', 'worker.bundle_ignores_path'],
      ])
    } finally {
      await test.close()
    }
  })
})
