/**
 * The order of the files of a project: the longest first, so that none of them is left alone at the end while the other core has
 * nothing to do. vitest knows a file's time from the run before; a clean clone has none, and goes by the size of the files, which
 * says little of a test that waits.
 */
import { relative } from 'node:path'
import type { TestSequencer, TestSpecification, Vitest } from 'vitest/node'

/** Seconds beside one neighbour on two cores, roughly: only their order counts. A file that is not here takes less. */
export const SECONDS: Readonly<Record<string, number>> = {
  'test/e2e/kill-worker.e2e.test.ts': 95,
  'test/e2e/restart.e2e.test.ts': 80,
  'test/commands/cli/doctor.e2e.test.ts': 80,
  'test/workflows/provider-outage.workflow.test.ts': 70,
  'test/e2e/worker-failed.e2e.test.ts': 66,
  'test/workflows/event-outbox.workflow.test.ts': 60,
  'test/e2e/commands-three-ways.e2e.test.ts': 50,
  'test/chaos/syncs.e2e.test.ts': 48,
  'test/e2e/early-sigterm.e2e.test.ts': 40,
  'test/db/lost-connections.pg.test.ts': 40,
  'test/bin/start-errors.e2e.test.ts': 30,
  'test/commands/cli/cli.e2e.test.ts': 30,
  'test/temporal/starters.e2e.test.ts': 30,
  'test/e2e/temporal-ui.e2e.test.ts': 30,
  'test/chaos/fleet.e2e.test.ts': 29,
  'test/commands/cli/make-provider.e2e.test.ts': 28,
  'test/dev/postgres.e2e.test.ts': 26,
  'test/e2e/temporal-view.e2e.test.ts': 23,
  'test/temporal/tls.e2e.test.ts': 23,
  'test/config/effects.e2e.test.ts': 22,
  'test/e2e/demo.e2e.test.ts': 21,
  'test/temporal/syncs.e2e.test.ts': 21,
  'test/temporal/keep-schedules.e2e.test.ts': 18,
  'test/observability/tracing.e2e.test.ts': 15,
  'test/e2e/oauth.e2e.test.ts': 12,
  'test/temporal/server.e2e.test.ts': 11,
  'test/observability/load.e2e.test.ts': 11,
  'test/config/bad-values.e2e.test.ts': 10,
  'test/credentials/key-rotation.e2e.test.ts': 10,
}

export class LongestFirst implements TestSequencer {
  readonly #vitest: Vitest

  constructor(vitest: Vitest) {
    this.#vitest = vitest
  }

  async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const secondsOf = ({ moduleId }: TestSpecification): number =>
      SECONDS[relative(this.#vitest.config.root, moduleId)] ?? 0
    const groupOf = ({ project }: TestSpecification): number => project.config.sequence.groupOrder
    const sorted = await (await this.#usual()).sort(files)
    // The sort is stable: what takes less stays as vitest has it.
    return sorted.sort((a, b) => groupOf(a) - groupOf(b) || secondsOf(b) - secondsOf(a))
  }

  async shard(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await this.#usual()).shard(files)
  }

  /** Loaded when it is needed: a test reads the configuration that names this class, and would load the whole of vitest. */
  async #usual(): Promise<TestSequencer> {
    const { BaseSequencer } = await import('vitest/node')
    return new BaseSequencer(this.#vitest)
  }
}
