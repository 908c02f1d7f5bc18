/** What mutants run against: the test files that `npm run mutate` names. */
import { defineConfig } from 'vitest/config'
import { CONDITIONS } from '../../vitest.config.ts'

const files = JSON.parse(process.env.MUTATION_TEST_FILES ?? '[]') as string[]

export default defineConfig({
  resolve: { conditions: CONDITIONS },
  ssr: { resolve: { conditions: CONDITIONS, externalConditions: ['durable-source', 'node'] } },
  test: {
    include: files,
    setupFiles: ['scripts/mutation/no-shrinking.ts'],
    expect: { poll: { timeout: 20_000, interval: 20 } },
    execArgv: ['--conditions=durable-source'],
    maxWorkers: 1,
    restoreMocks: true,
    unstubEnvs: true,
    unstubGlobals: true,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
