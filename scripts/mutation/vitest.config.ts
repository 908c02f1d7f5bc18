/** What mutants run against: the test files that `npm run mutate` names. */
import { defineConfig } from 'vitest/config'
import type { Reporter, Vitest } from 'vitest/node'
import { CONDITIONS } from '../../vitest.config.ts'

const files = JSON.parse(process.env.MUTATION_TEST_FILES ?? '[]') as string[]

/**
 * A test file that a mutant keeps from loading has no test that fails, and Stryker's runner would take its mutant for a survivor. As an
 * error outside of tests it is seen.
 */
class TellsWhatDoesNotLoad implements Reporter {
  #vitest?: Vitest

  onInit(vitest: Vitest): void {
    this.#vitest = vitest
  }

  onTestModuleEnd(file: Parameters<NonNullable<Reporter['onTestModuleEnd']>>[0]): void {
    for (const { message } of file.errors()) this.#vitest?.state.catchError(new Error(message), 'Unhandled Error')
  }
}

export default defineConfig({
  resolve: { conditions: CONDITIONS },
  ssr: { resolve: { conditions: CONDITIONS, externalConditions: ['durable-source', 'node'] } },
  test: {
    include: files,
    reporters: [new TellsWhatDoesNotLoad()],
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
