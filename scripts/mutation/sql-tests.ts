/** The tests of each function in SQL, the quick ones first: most mutants fall at the first file. */
import { readdirSync } from 'node:fs'
import { root } from './results.ts'

const FOLDER = 'drizzle/functions/'
const ADMISSION = ['model/call-state', 'calls/overrides', 'calls/admission/call-state']
const JOINED = ['calls/admission/joined-queries', 'model/call-state']
const INCIDENTS = [
  'incidents/incident-functions',
  'incidents/list',
  'incidents/acts',
  'calls/admission/call-state',
  'syncs/staleness',
  'subscriptions/keep',
]
const EVENTS = ['incidents/record-events', 'calls/call-events', 'events/durable-events']

const TESTS: Readonly<Record<string, readonly string[]>> = {
  admit_calls: ['calls/admission/admit-calls', ...ADMISSION],
  admit_joined: JOINED,
  claim_events: ['events/claim-events', 'events/outbox', 'claims/claimed-rows', 'activities/event-activities'],
  claim_webhooks: [
    'webhooks/claim-webhooks',
    'webhooks/queries',
    'webhooks/order',
    'webhooks/parts',
    'webhooks/recovery',
    'claims/claimed-rows',
  ],
  close_incident: [...INCIDENTS, 'incidents/record-events'],
  close_incident_if_well: INCIDENTS,
  is_breaker_well: [...INCIDENTS, 'retention/pruning'],
  is_integration_well: [...INCIDENTS, 'retention/pruning'],
  lock_calls: ['calls/admission/call-rows', ...ADMISSION, ...JOINED],
  lock_keys: ['webhooks/lock-keys', 'webhooks/order'],
  merged_calls: ['calls/admission/call-rows', ...JOINED, 'calls/overrides'],
  open_incident: INCIDENTS,
  pass_turns: ['webhooks/pass-turns', 'webhooks/order'],
  record_events: ['incidents/incident-functions', ...EVENTS],
  settle_calls: ['calls/admission/settle-calls', ...ADMISSION, 'incidents/list', 'calls/request-row'],
  settle_calls_recorded: EVENTS,
  settle_joined: JOINED,
  store_calls: ['calls/admission/call-rows', ...JOINED, 'calls/admission/call-state'],
  take_shared: ['calls/admission/take-shared', 'model/shared-budget', 'calls/admission/shared-budgets'],
}

export function functionFiles(): string[] {
  return readdirSync(root + FOLDER)
    .map((file) => FOLDER + file)
    .sort()
}

export function testsOfFunction(file: string): string[] {
  const tests = TESTS[file.slice(FOLDER.length, -'.sql'.length)]
  if (tests === undefined) throw new Error(`${file} has no tests: name them in scripts/mutation/sql-tests.ts.`)
  return [...new Set(tests)].map((test) => `test/${test}.pg.test.ts`)
}
