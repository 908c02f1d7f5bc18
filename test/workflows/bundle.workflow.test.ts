import { builtinModules } from 'node:module'
import { createContext, Script } from 'node:vm'
import { beforeAll, describe, expect, it } from 'vitest'
import { bundleWorkflows } from '../../src/worker.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import * as workflows from '../../src/workflows/index.ts'
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

describe('the workflow bundle', () => {
  it('is code that runs', () => {
    expect(() => new Script(code).runInContext(createContext({ __webpack_module_cache__: {} }))).not.toThrow()
  })

  it('exports each named workflow, those of commands under the command’s name too, and nothing else', () => {
    const commands = {
      'integrations:recover-webhooks': 'recoverWebhooks',
      'integrations:reconcile-webhooks': 'reconcileWebhooks',
      'integrations:replay-webhook': 'processWebhook',
      'integrations:sync': 'dispatchSyncs',
      'integrations:list-failed-items': 'listFailedItems',
      'integrations:skip-sync-item': 'skipSyncItem',
      'integrations:retry-sync-item': 'processSyncItem',
      'integrations:advance-cursor': 'advanceCursor',
      'integrations:find-orphans': 'findOrphans',
      'integrations:refresh-tokens': 'refreshTokens',
      'integrations:prune': 'prune',
      'integrations:evaluate-failures': 'evaluateFailures',
    }
    const names = Object.fromEntries(Object.values(WORKFLOW).map((name) => [name, name]))
    const exported = Object.fromEntries(Object.entries(workflows).map(([name, workflow]) => [name, workflow.name]))
    expect(exported).toEqual({ ...names, ...commands })
  })

  it('holds all workflows', () => {
    for (const file of [
      'webhook-inbox',
      'process-webhook',
      'recover-webhooks',
      'reconcile-webhooks',
      'sync-integration',
      'dispatch-syncs',
      'process-sync-item',
      'backfill-sync',
      'list-failed-items',
      'skip-sync-item',
      'advance-cursor',
      'find-orphans',
      'refresh-tokens',
      'prune',
      'evaluate-failures',
    ])
      expect(sources.filter((source) => source.endsWith(`src/workflows/${file}.ts`))).toHaveLength(1)
  })

  it('takes of our own code only workflows and pure rules', () => {
    const ours = sources.filter((source) => !source.includes('node_modules') && /[.]ts$/.test(source))
    expect(ours.length).toBeGreaterThan(0)
    expect(ours.filter((source) => !/src[/](workflows|core)[/]/.test(source))).toEqual([])
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
