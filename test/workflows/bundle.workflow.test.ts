import { builtinModules } from 'node:module'
import { createContext, Script } from 'node:vm'
import { beforeAll, describe, expect, it } from 'vitest'
import { bundleWorkflows } from '../../src/create-workers.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import * as workflows from '../../src/workflows/index.ts'
import { runProgramCommand } from '../../src/workflows/started-commands.ts'
import { COMMAND_WORKFLOWS } from '../support/command-workflows.ts'
import { isRuleFile } from '../support/rule-files.ts'
import { silenceTemporal } from './stage.ts'

/** Where the modules of the bundle come from, as its source map says. */
let sources: string[]
let code: string

beforeAll(async () => {
  silenceTemporal()
  code = (await bundleWorkflows()).code
  const map = code.slice(code.lastIndexOf('base64,') + 'base64,'.length).trim()
  sources = (JSON.parse(Buffer.from(map, 'base64').toString()) as { sources: string[] }).sources
})

const exported: Readonly<Record<string, { readonly name: string }>> = { ...workflows }

describe('the workflow bundle', () => {
  it('is code that runs', () => {
    expect(() => new Script(code).runInContext(createContext({ __webpack_module_cache__: {} }))).not.toThrow()
  })

  it('exports each named workflow, those of commands under the command’s name too, and nothing else', () => {
    const commands = COMMAND_WORKFLOWS.flatMap(({ type }) => (type === null ? [] : [type]))
    expect(Object.keys(exported).sort()).toEqual([...Object.values(WORKFLOW), ...commands].sort())
    for (const name of Object.values(WORKFLOW)) expect(exported[name]?.name).toBe(name)
    // One function has all commands that the program runs: a type that leads elsewhere would run another one.
    for (const entry of COMMAND_WORKFLOWS)
      if (entry.type !== null)
        expect([entry.type, exported[entry.type] === runProgramCommand]).toEqual([entry.type, entry.runs === 'program'])
  })

  it('holds all workflows', () => {
    for (const file of [
      'pumped-queue',
      'process-webhook',
      'reconcile-workflow',
      'sync-integration',
      'dispatch-syncs',
      'process-sync-item',
      'one-activity',
      'backfill-sync',
      'prune-workflow',
      'started-commands',
    ])
      expect(sources.filter((source) => source.endsWith(`src/workflows/${file}.ts`))).toHaveLength(1)
  })

  it('takes of our own code only workflows and pure rules', () => {
    const ours = sources.filter((source) => !source.includes('node_modules') && /[.]ts$/.test(source))
    expect(ours.length).toBeGreaterThan(0)
    const paths = ours.map((source) => source.slice(source.lastIndexOf('src/')))
    expect(paths.filter((path) => !path.startsWith('src/workflows/') && !isRuleFile(path))).toEqual([])
  })

  it('takes of all packages only those of Temporal and what they bring', () => {
    const packages = new Set(
      sources.flatMap((source) => /.*node_modules[/]((?:@[^/]+[/])?[^/]+)/.exec(source)?.slice(1) ?? []),
    )
    expect(packages).toContain('@temporalio/workflow')
    const allowed =
      /^(@temporalio[/](workflow|common|proto|worker)|long|ms|nexus-rpc|protobufjs|@protobufjs[/].*|webpack)$/
    expect([...packages].filter((name) => !allowed.test(name))).toEqual([])
  })

  it('asks for no module of Node', () => {
    const asked = [...code.matchAll(/require\(["'](?:node:)?([a-z_/]+)["']\)/g)].map((match) => match[1] as string)
    expect(asked.filter((name) => builtinModules.includes(name))).toEqual([])
    expect(code).not.toContain('drizzle-orm')
  })
})
