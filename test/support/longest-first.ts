/**
 * The order of the files of a project: the longest first, so that none of them is left alone at the end while the other core has
 * nothing to do. And those that wait between those that work, so that no core has nothing to do meanwhile. vitest knows a file's time
 * from the run before; a clean clone has none, and goes by the size of the files, which says little of a test that waits.
 */
import { relative } from 'node:path'
import type { TestSequencer, TestSpecification, Vitest } from 'vitest/node'

/** Seconds beside two or three neighbours on two cores, roughly: only their order counts. A file that is not here takes less. */
const WORK: Readonly<Record<string, number>> = {
  'test/e2e/kill-worker.e2e.test.ts': 85,
  'test/e2e/restart.e2e.test.ts': 75,
  'test/e2e/dashboard-pages.e2e.test.ts': 70,
  'test/api/schemathesis.pg.test.ts': 56,
  'test/e2e/commands-three-ways.e2e.test.ts': 55,
  'test/chaos/syncs.e2e.test.ts': 42,
  'test/bin/start-errors.e2e.test.ts': 42,
  'test/chaos/webhooks.e2e.test.ts': 34,
  'test/e2e/temporal-ui.e2e.test.ts': 50,
  'test/e2e/dashboard-use.e2e.test.ts': 32,
  'test/commands/cli/make-provider.e2e.test.ts': 32,
  'test/commands/cli/cli.e2e.test.ts': 30,
  'test/e2e/demo.e2e.test.ts': 30,
  'test/workflows/sync-listing.workflow.test.ts': 25,
  'test/dev/postgres.e2e.test.ts': 22,
  'test/observability/tracing.e2e.test.ts': 22,
  'test/temporal/syncs.e2e.test.ts': 20,
  'test/workflows/sync-integration.workflow.test.ts': 22,
  'test/workflows/started-commands.workflow.test.ts': 20,
  'test/rollups/chart-reads.pg.test.ts': 19,
  'test/config/effects.pg.test.ts': 18,
  'test/config/effects.e2e.test.ts': 18,
  'test/e2e/oauth.e2e.test.ts': 18,
  'test/observability/load.e2e.test.ts': 17,
  'test/workflows/sync-jobs.workflow.test.ts': 17,
  'test/chaos/fleet.e2e.test.ts': 16,
  'test/linearizability/linearizability.e2e.test.ts': 16,
  'test/workflows/sync-operating.workflow.test.ts': 16,
  'test/calls/postgres-crash.e2e.test.ts': 15,
  'test/commands/syncs.workflow.test.ts': 15,
  'test/db/apply-migrations.pg.test.ts': 15,
  'test/temporal/keep-schedules.e2e.test.ts': 15,
  'test/temporal/server.e2e.test.ts': 15,
  'test/workflows/incident.workflow.test.ts': 15,
  'test/credentials/key-rotation.e2e.test.ts': 14,
  'test/rehearsal/rehearse-command.pg.test.ts': 14,
  'test/temporal/starters.e2e.test.ts': 14,
  'test/testing/conformance/broken-providers.test.ts': 25,
  'test/testing/simulation/simulate-command.test.ts': 23,
  'test/testing/simulation/simulate.test.ts': 19,
  'test/testing/conformance/broken-listings.test.ts': 17,
  'test/testing/simulation/planted-bugs.test.ts': 17,
  'test/house/docs-code.test.ts': 15,
  'test/providers/paginate-conformance.test.ts': 15,
  'test/providers/crm.test.ts': 14,
  'test/testing/conformance/streams.test.ts': 13,
  'test/adapters/github/operations.test.ts': 12,
}

/** The same of those that need less than half of a core. */
const WAITS: Readonly<Record<string, number>> = {
  'test/commands/cli/doctor.e2e.test.ts': 95,
  'test/e2e/half-minutes.e2e.test.ts': 67,
  'test/workflows/provider-outage.workflow.test.ts': 58,
  'test/workflows/event-outbox.workflow.test.ts': 45,
  'test/temporal/remembered-starts.e2e.test.ts': 42,
  'test/activities/pump/dead-pumps.pg.test.ts': 37,
  'test/workflows/webhook-inbox.workflow.test.ts': 28,
  'test/activities/pump/event-pumps.pg.test.ts': 27,
  'test/calls/admission/shared-budget.e2e.test.ts': 25,
  'test/workflows/stalled-worker.e2e.test.ts': 25,
  'test/calls/admission/call-state.pg.test.ts': 14,
  'test/db/lost-connections.pg.test.ts': 14,
  'test/activities/small-run.pg.test.ts': 11,
  'test/integrations/doctor/lock-check.pg.test.ts': 11,
}

export const SECONDS: Readonly<Record<string, number>> = { ...WORK, ...WAITS }

/**
 * Of the projects of one group: the files of one stay together, since they share its processes, which vitest ends where the next file
 * in the row is of another project. What is short comes last.
 */
const ORDER_IN_GROUP = ['examples', 'slow', 'fast', 'e2e', 'workflows', 'replacing', 'postgres']

export class LongestFirst implements TestSequencer {
  readonly #vitest: Vitest

  constructor(vitest: Vitest) {
    this.#vitest = vitest
  }

  async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await (await this.#usual()).sort(files)
    const pathOf = ({ moduleId }: TestSpecification): string => relative(this.#vitest.config.root, moduleId)
    const secondsOf = (file: TestSpecification): number => SECONDS[pathOf(file)] ?? 0
    const placeOf = ({ project }: TestSpecification): number =>
      project.config.sequence.groupOrder * (ORDER_IN_GROUP.length + 1) + ORDER_IN_GROUP.indexOf(project.name) + 1
    sorted.sort((a, b) => placeOf(a) - placeOf(b) || secondsOf(b) - secondsOf(a))
    // The longest that waits comes beside the longest that works, and so on.
    const counts = new Map<string, number>()
    const turns = new Map<TestSpecification, number>()
    for (const file of sorted) {
      const isWaiting = WAITS[pathOf(file)] !== undefined
      const kind = `${placeOf(file)} ${isWaiting}`
      const nth = counts.get(kind) ?? 0
      counts.set(kind, nth + 1)
      turns.set(file, isWaiting ? nth + 0.5 : nth)
    }
    const turnOf = (file: TestSpecification): number => turns.get(file) ?? 0
    // The sort is stable: what takes less stays as vitest has it.
    return sorted.sort((a, b) => placeOf(a) - placeOf(b) || turnOf(a) - turnOf(b))
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
