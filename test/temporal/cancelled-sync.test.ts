import { Client, Connection } from '@temporalio/client'
import { expect, it, vi } from 'vitest'
import type { Config } from '../../src/config/schema.ts'
import { temporalStarters } from '../../src/temporal/starters.ts'
import { loadConfig } from '../support/load-config.ts'

const GRPC_DEADLINE_EXCEEDED = 4 // https://grpc.io/docs/guides/status-codes/

it('a run that is terminated is told of once its provider is known, and whoever cancels does not wait for that', async () => {
  const { config } = loadConfig({ config: {}, optionProviderKeys: [], middlewareNames: [] }) as {
    config: Config
  }
  // A run that no worker takes: it lives, and does not end until it is terminated.
  const client = new Client({ connection: Connection.lazy() })
  const terminated = vi.fn(async () => {})
  vi.spyOn(client, 'withDeadline').mockImplementation((_, ask) => ask())
  vi.spyOn(client.workflow, 'getHandle').mockReturnValue({
    describe: async () => ({ status: { name: 'RUNNING' } }),
    cancel: async () => {},
    result: () =>
      Promise.reject(Object.assign(new Error('too late'), { code: GRPC_DEADLINE_EXCEEDED, details: '', metadata: {} })),
    terminate: terminated,
  } as never)
  const lines: unknown[] = []
  let find: (provider: string) => void = () => {}
  const starters = temporalStarters(
    () => client,
    config,
    { debug() {}, info() {}, warn: (fields) => void lines.push(fields), error() {} },
    { wakeUpFailed() {}, workflowReplaced() {} },
    { cancelTimeoutMs: 1, providerOf: () => new Promise((resolve) => (find = resolve)) },
  )
  await starters.cancelSync({ integrationId: 7 })
  expect(terminated).toHaveBeenCalledOnce()
  expect(lines).toEqual([])
  find('github')
  // What waits for the provider goes on before the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve))
  expect(lines).toEqual([{ event: 'sync.terminated', integration: 7, provider: 'github' }])
})
