/**
 * The order of the files of a project: the longest first, so that none of them is left alone at the end while the other core has
 * nothing to do. vitest knows a file's time from the run before; a clean clone has none, and goes by the size of the files, which
 * says little of a test that waits.
 */
import { relative } from 'node:path'
import type { TestSequencer, TestSpecification, Vitest } from 'vitest/node'

/** Seconds beside two or three neighbours on two cores, roughly: only their order counts. A file that is not here takes less. */
export const SECONDS: Readonly<Record<string, number>> = {
  'test/e2e/kill-worker.e2e.test.ts': 92,
  'test/commands/cli/doctor.e2e.test.ts': 83,
  'test/e2e/worker-failed.e2e.test.ts': 65,
  'test/api/schemathesis.pg.test.ts': 65,
  'test/e2e/restart.e2e.test.ts': 62,
  'test/workflows/event-outbox.workflow.test.ts': 48,
  'test/e2e/commands-three-ways.e2e.test.ts': 47,
  'test/e2e/early-sigterm.e2e.test.ts': 40,
  'test/commands/cli/cli.e2e.test.ts': 39,
  'test/temporal/wedged.e2e.test.ts': 39,
  'test/chaos/syncs.e2e.test.ts': 38,
  'test/workflows/provider-outage.workflow.test.ts': 38,
  'test/activities/pump/dead-pumps.pg.test.ts': 35,
  'test/dev/postgres.e2e.test.ts': 35,
  'test/workflows/stalled-worker.e2e.test.ts': 33,
  'test/chaos/webhooks.e2e.test.ts': 33,
  'test/e2e/temporal-view.e2e.test.ts': 30,
  'test/workflows/sync-listing.workflow.test.ts': 30,
  'test/bin/start-errors.e2e.test.ts': 30,
  'test/e2e/temporal-ui.e2e.test.ts': 28,
  'test/workflows/sync-integration.workflow.test.ts': 28,
  'test/activities/pump/event-pumps.pg.test.ts': 27,
  'test/temporal/syncs.e2e.test.ts': 26,
  'test/temporal/keep-schedules.e2e.test.ts': 22,
  'test/calls/admission/call-state.pg.test.ts': 22,
  'test/commands/cli/make-provider.e2e.test.ts': 20,
  'test/config/effects.pg.test.ts': 19,
  'test/config/effects.e2e.test.ts': 19,
  'test/temporal/server.e2e.test.ts': 17,
  'test/workflows/sync-jobs.workflow.test.ts': 17,
  'test/workflows/sync-operating.workflow.test.ts': 16,
  'test/workflows/started-commands.workflow.test.ts': 16,
  'test/temporal/starters.e2e.test.ts': 15,
  'test/chaos/fleet.e2e.test.ts': 15,
  'test/calls/postgres-crash.e2e.test.ts': 15,
  'test/e2e/demo.e2e.test.ts': 15,
  'test/commands/syncs.workflow.test.ts': 15,
  'test/observability/load.e2e.test.ts': 14,
  'test/workflows/incident.workflow.test.ts': 14,
  'test/workflows/webhook-inbox.workflow.test.ts': 14,
  'test/credentials/key-rotation.e2e.test.ts': 12,
  'test/db/lost-connections.pg.test.ts': 12,
  'test/e2e/oauth.e2e.test.ts': 11,
  'test/observability/tracing.e2e.test.ts': 11,
  'test/activities/small-run.pg.test.ts': 11,
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
