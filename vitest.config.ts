import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.ts'

/**
 * Ten projects, told apart by a test file's ending, run one after the other, or together where their `groupOrder` is the same:
 *
 * | project   | files              | needs                                   |
 * | --------- | ------------------ | --------------------------------------- |
 * | fast      | *.test.ts          | nothing: no server, no network          |
 * | slow      | those of SLOW      | nothing, and seconds of a core each     |
 * | examples  | *.test.ts          | nothing: examples/, tested as a host is; REPLACING_FAST |
 * | postgres  | *.pg.test.ts       | Postgres, a database of its own a file  |
 * | replacing | those of REPLACING | Postgres, and a process of its own      |
 * | workflows | *.workflow.test.ts | the time-skipping Temporal server, too  |
 * | e2e       | *.e2e.test.ts      | Temporal's dev server, too              |
 * | stacks    | those of STACKS    | all of it, Chromium, and a process of its own |
 * | stacks-alone | those of ALONE  | the same, and the machine for itself    |
 * | long      | *.long.test.ts     | all of it; only by `npm run test:long`  |
 *
 * `npm run check` runs `fast`, whose files take a moment each; `npm test` runs all but `stacks`, `stacks-alone` and `long`;
 * `npm run test:stacks` runs the two, and CI after `npm test` (docs/decisions/0099-stacks-apart.md).
 *
 * The files of `fast`, `slow`, `postgres`, `workflows` and `e2e` share their workers' processes and the modules in them
 * (`isolate: false`): to load the package for each of some 180 files takes as long as a third of their tests. No module of src/ keeps a state
 * between two calls but by the object it belongs to, so that a file finds nothing of another one's; test/house/shared-workers
 * holds to it.
 */
const endings = {
  postgres: 'test/**/*.pg.test.ts',
  workflows: 'test/**/*.workflow.test.ts',
  e2e: 'test/**/*.e2e.test.ts',
  long: 'test/**/*.long.test.ts',
}

/**
 * They need no server, but take seconds: each that has a kit, whose Postgres is WebAssembly; megabytes of answers, child processes, the
 * compiler.
 */
const SLOW = [
  'test/adapters/github-listing.test.ts',
  'test/adapters/github/{app,assets,bad-inputs,calls,conformance,faults,github-backfill,github-sync,operations}.test.ts',
  'test/adapters/stripe/{conformance,failures,operations,stripe-provider,stripe-reconcile,stripe-webhooks}.test.ts',
  'test/commands/cli/completion-script.test.ts',
  'test/dev/npm-scripts.test.ts',
  'test/framework/redaction-thread.test.ts',
  'test/house/{docs-code,public-surface}.test.ts',
  'test/providers/{crm,paginate-conformance}.test.ts',
  'test/sandbox/webhook-sender.test.ts',
  'test/scripts/{release,temporal-wrappers}.test.ts',
  'test/syncs/adaptive-quota.test.ts',
  'test/testing/conformance/{broken-listings,broken-providers,broken-writes,conformance,runners,signature-data,streams}.test.ts',
  'test/testing/postgres/wire-postgres.test.ts',
  'test/testing/simulation/{planted-bugs,simulate,simulate-command}.test.ts',
  'test/testing/{test-integrations,tokens,transport-route}.test.ts',
  'test/webhooks/differential/signatures.test.ts',
]

/** They hold a promise about time: a neighbour on a machine of two cores would break it. */
export const ALONE = [
  'test/chaos/temporal-away.e2e.test.ts',
  'test/e2e/sigterm.e2e.test.ts',
  'test/calls/admission/call-limits.e2e.test.ts',
  'test/testing/host-example.e2e.test.ts',
]

/**
 * The programs as processes: what they say, whole deployments that are killed and started again, and pages in a browser. Each file has
 * a process of its own: those that load a host, which has one environment a process, or give Temporal's runtime a logger, would leave
 * it to the next one.
 */
export const STACKS = [
  'test/bin/start-errors.e2e.test.ts',
  'test/calls/admission/shared-budget.e2e.test.ts',
  'test/calls/idempotency.e2e.test.ts',
  'test/chaos/fleet.e2e.test.ts',
  'test/chaos/syncs.e2e.test.ts',
  'test/chaos/webhooks.e2e.test.ts',
  'test/commands/cli/cli.e2e.test.ts',
  'test/commands/cli/doctor.e2e.test.ts',
  'test/commands/cli/make-provider.e2e.test.ts',
  'test/config/bad-values.e2e.test.ts',
  'test/credentials/key-rotation.e2e.test.ts',
  'test/e2e/commands-three-ways.e2e.test.ts',
  'test/e2e/dashboard-pages.e2e.test.ts',
  'test/e2e/dashboard-use.e2e.test.ts',
  'test/e2e/demo.e2e.test.ts',
  'test/e2e/half-minutes.e2e.test.ts',
  'test/e2e/kill-worker.e2e.test.ts',
  'test/e2e/oauth.e2e.test.ts',
  'test/e2e/oidc-sign-in.e2e.test.ts',
  'test/e2e/restart.e2e.test.ts',
  'test/e2e/temporal-ui.e2e.test.ts',
  'test/incidents/incidents.e2e.test.ts',
  'test/linearizability/linearizability.e2e.test.ts',
  'test/mappings/mappings.e2e.test.ts',
  'test/oauth/tokens.e2e.test.ts',
  'test/observability/load.e2e.test.ts',
  'test/observability/tracing.e2e.test.ts',
  'test/temporal/worker-faults.e2e.test.ts',
  'test/workflows/stalled-worker.e2e.test.ts',
]

/**
 * They replace a module (`vi.mock`), which would stay replaced for the files that come after them in the same process. Or they close
 * the network of their process, and what other files have left there would be refused.
 */
export const REPLACING = [
  'test/calls/request.pg.test.ts',
  'test/calls/pipeline.pg.test.ts',
  'test/rehearsal/rehearsal.pg.test.ts',
]
/** The same, and needs nothing. */
export const REPLACING_FAST = ['test/rehearsal/network-off.test.ts', 'test/testing/postgres/missing.test.ts']

/** The projects that a command of package.json runs, by the option that it has; '' is `npm test`. */
export const SUITES = {
  '': ['fast', 'slow', 'examples', 'postgres', 'replacing', 'workflows', 'e2e'],
  '--stacks': ['stacks', 'stacks-alone'],
  '--long': ['long'],
} as const

/** Starts one Postgres for all files of a project and hands its address to them. */
const POSTGRES = 'test/support/postgres-setup.ts'
/** Starts one Temporal dev server for all files of a project. */
const DEV_SERVER = 'test/support/dev-server-setup.ts'
/** Compiles `src/` once and installs it as a host has it. */
const INSTALLED = 'test/support/installed-package-setup.ts'

/**
 * The package's own name leads to src/, as in tsconfig.json; the others are what Vite uses for Node by default, but `module`: that is
 * for bundlers, and Node can't load what @opentelemetry/api has under it.
 */
export const CONDITIONS = ['durable-source', 'node', 'development|production']

export default defineConfig({
  resolve: { conditions: CONDITIONS },
  ssr: { resolve: { conditions: CONDITIONS, externalConditions: ['durable-source', 'node'] } },
  test: {
    // A test that passes at the second try is a test that fails; a project without tests is a mistake.
    retry: 0,
    passWithNoTests: false,
    // What comes by itself is waited for as long as in test/support/soon.ts.
    expect: { poll: { timeout: 20_000, interval: 20 } },
    // For what a test imports natively or starts as a child process.
    execArgv: ['--conditions=durable-source'],
    // Stopping servers takes longer than stopping workers.
    teardownTimeout: 60_000,
    sequence: { sequencer: LongestFirst },
    restoreMocks: true,
    unstubEnvs: true,
    unstubGlobals: true,
    projects: [
      {
        extends: true,
        test: {
          name: 'fast',
          include: ['test/**/*.test.ts'],
          exclude: [...Object.values(endings), ...SLOW, ...REPLACING, ...REPLACING_FAST],
          pool: 'threads',
          isolate: false,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'slow',
          include: SLOW,
          pool: 'threads',
          isolate: false,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'examples',
          include: ['examples/**/*.test.ts', ...REPLACING_FAST],
          pool: 'threads',
          maxWorkers: 2,
          // With the fast ones: a group has one number of workers.
          sequence: { groupOrder: 0 },
          testTimeout: 30_000,
          // The first use on a machine makes the kit's snapshot.
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'postgres',
          include: [endings.postgres],
          exclude: REPLACING,
          globalSetup: [POSTGRES],
          pool: 'forks',
          isolate: false,
          // One group with the three projects below, and behind their files (test/support/longest-first.ts): it has one number of
          // workers, and a core may have nothing to do at one end, not at three. Some files wait for half a minute, and need no core.
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'replacing',
          include: REPLACING,
          globalSetup: [POSTGRES],
          pool: 'forks',
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'workflows',
          include: [endings.workflows],
          globalSetup: [POSTGRES],
          // Each file has a JVM beside it. The two longest wait for a minute, and need a quarter of one core for it.
          pool: 'forks',
          isolate: false,
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
          // A worker's long poll may run out only after a minute, and its shutdown waits for that.
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'e2e',
          include: [endings.e2e],
          exclude: [...ALONE, ...STACKS],
          // Their workers take the workflows' bundle from the package.
          globalSetup: [POSTGRES, DEV_SERVER, INSTALLED],
          pool: 'forks',
          isolate: false,
          maxWorkers: 4,
          // Tests of one file that wait beside each other.
          maxConcurrency: 12,
          sequence: { groupOrder: 1 },
          testTimeout: 180_000,
          hookTimeout: 300_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'stacks',
          include: STACKS,
          globalSetup: [POSTGRES, DEV_SERVER, INSTALLED],
          pool: 'forks',
          maxWorkers: 3,
          maxConcurrency: 12,
          sequence: { groupOrder: 2 },
          testTimeout: 180_000,
          hookTimeout: 300_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'stacks-alone',
          include: ALONE,
          globalSetup: [POSTGRES, INSTALLED],
          pool: 'forks',
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 3 },
          testTimeout: 180_000,
          hookTimeout: 300_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'long',
          include: [endings.long],
          globalSetup: [POSTGRES, INSTALLED],
          pool: 'forks',
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 4 },
          testTimeout: 30 * 60_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
})
