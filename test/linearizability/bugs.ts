/**
 * Bugs on purpose: each is planted into a function of the test's database, into a statement of its processes, or as a double around a
 * handle. The judge has to find each of them, or its silence about the code as it is would say nothing.
 */
import type { SubjectKind } from './lane.ts'
import type { StatementEdit } from './statement-edits.ts'

export interface Bug {
  readonly name: string
  /** What shows it. */
  readonly subject: SubjectKind
  /** Of drizzle/functions/, by its name without the prefix. */
  readonly functions?: readonly { readonly name: string; readonly replace: string; readonly by: string }[]
  readonly edits?: readonly StatementEdit[]
  readonly schema?: { readonly plant: string; readonly remove: string }
  /** A refresh takes the row that it read without the lock for the one under it. */
  readonly staleRead?: boolean
  /** Found in the short run, too: one of each subject. */
  readonly isInShortRun?: boolean
}

const SETTLE = '), settled as ('
const HAND_BACK = "set status = 'pending', claim = null"
const TAKE_UP = '"lost_workers" = r.lost_workers + 1'
const CLAIM_ONE = '"integration_webhooks"."key_turn" is not false and not exists'
const STILL_HELD = "coalesce(r.status = 'processing', false) and r.attempts = s.attempts and r.claim = s.claim"
const ACQUIRE = 'insert into "public"."integration_cache"'
const EXTEND = 'update "public"."integration_cache" set "expires_at"'
const RELEASE = 'delete from "public"."integration_cache"'
const LEDGER_ENTRY = 'left join "public"."integration_requests"'
const NEW_END = 'clock_timestamp()::timestamptz(3) + make_interval(secs => least(($1)::double precision, 3155760000))'

const TAKES_A_HELD_LOCK: StatementEdit = { where: ACQUIRE, replace: 'where not (', by: 'where true or not (' }
const LOCK_IS_OVER_AT_ONCE: readonly StatementEdit[] = ['$4', '$7'].map((life) => ({
  where: ACQUIRE,
  replace: `least((${life})::double precision`,
  by: `0 * least((${life})::double precision`,
}))

const CLAIMS: readonly Bug[] = [
  {
    name: 'a settlement does not ask whose claim the row has',
    subject: 'claims',
    edits: [{ where: SETTLE, replace: 'r.attempts = s.attempts and r.claim = s.claim', by: 'true' }],
    isInShortRun: true,
  },
  {
    name: 'a row is settled twice by one claim',
    subject: 'claims',
    edits: [{ where: SETTLE, replace: STILL_HELD, by: 'r.attempts = s.attempts' }],
  },
  {
    name: 'a hand-back does not ask whose claim the row has',
    subject: 'claims',
    edits: [{ where: HAND_BACK, replace: 'r.attempts = s.attempts and r.claim = s.claim', by: 'true' }],
  },
  {
    name: 'a hand-back counts the attempt',
    subject: 'claims',
    edits: [{ where: HAND_BACK, replace: 'attempts = r.attempts - 1', by: 'attempts = r.attempts' }],
  },
  {
    name: 'a take-up does not ask whose claim the row has',
    subject: 'claims',
    edits: [
      {
        where: TAKE_UP,
        replace: 'r.attempts = $3 and r.claim = $4',
        by: '(r.attempts = $3 or r.claim = $4 or true)',
      },
    ],
  },
  {
    name: 'a claim of many rows does not lock them',
    subject: 'claims',
    functions: [{ name: 'claim_webhooks', replace: 'FOR UPDATE SKIP LOCKED', by: '' }],
  },
  {
    name: 'a claim of one row does not ask for its status',
    subject: 'claims',
    edits: [{ where: CLAIM_ONE, replace: '"status" = $7', by: '"status" is distinct from nullif($7, $7)' }],
  },
]

const LIMITER: readonly Bug[] = [
  {
    name: 'one call more than the limit',
    subject: 'limiter',
    functions: [{ name: 'admit_calls', replace: 'IF w_count >= l_limit THEN', by: 'IF w_count > l_limit THEN' }],
  },
  {
    name: 'a window begins a quarter of a second late',
    subject: 'limiter',
    functions: [
      {
        name: 'admit_calls',
        replace: 'w_start := (now_ms / length_ms) * length_ms;',
        by: 'w_start := ((now_ms - 250) / length_ms) * length_ms;',
      },
    ],
    isInShortRun: true,
  },
  {
    name: 'admissions do not lock the state that they count in',
    subject: 'limiter',
    functions: [{ name: 'lock_calls', replace: ' FOR UPDATE', by: '' }],
  },
  {
    name: 'a joined statement does not count its callers',
    subject: 'limiter',
    functions: [{ name: 'admit_joined', replace: 'used + asked.callers + beyond', by: 'used + beyond' }],
  },
  {
    name: 'a joined statement passes the limit',
    subject: 'limiter',
    functions: [
      {
        name: 'admit_joined',
        replace: `(c.value #>> '{window,count}')::bigint ELSE 0 END <= asked."limit"`,
        by: `(c.value #>> '{window,count}')::bigint ELSE 0 END <= asked."limit" + 30`,
      },
    ],
  },
  {
    name: 'the quiet that the provider asked for is not kept',
    subject: 'limiter',
    functions: [{ name: 'admit_calls', replace: 'IF suppressed IS NOT NULL AND now_ms < suppressed', by: 'IF false' }],
  },
]

const LEDGER: readonly Bug[] = [
  {
    name: 'a key is spent without a look at who has spent it',
    subject: 'ledger',
    edits: [
      {
        where: 'insert into "public"."integration_idempotency_keys"',
        replace: 'do nothing',
        // Answered ones apart: their callers would begin again and again.
        by: `do update set "owner" = excluded."owner" where not exists (select from integration_requests r
          where r.integration_id = excluded.integration_id and r.idempotency_key = excluded.key and r.status_code between 200 and 299)`,
      },
    ],
  },
  {
    name: 'a key is given back although its effect is not known',
    subject: 'ledger',
    schema: {
      plant: `
        create function bug() returns trigger language plpgsql as $$ begin
          delete from integration_idempotency_keys k
            where new.failure_class = 'upstream' and k.integration_id = new.integration_id and k.key = new.idempotency_key;
          return new;
        end $$;
        create trigger bug after insert on integration_requests for each row execute function bug()`,
      remove: 'drop trigger bug on integration_requests; drop function bug',
    },
    isInShortRun: true,
  },
  {
    name: 'the answer of a key is not found',
    subject: 'ledger',
    edits: [
      { where: LEDGER_ENTRY, replace: '"failure_class" is null', by: `"failure_class" = 'none'` },
      { where: LEDGER_ENTRY, replace: 'between 200 and 299', by: 'between 600 and 699' },
    ],
  },
  {
    name: 'a call that gives its key back gives back all later ones',
    subject: 'ledger',
    edits: [
      {
        where:
          'delete from "public"."integration_idempotency_keys" where ("public"."integration_idempotency_keys"."id" = $1',
        replace: `"id" = $1 and "public"."integration_idempotency_keys"."owner" = $2`,
        by: `"id" >= $1 and $2 <> ''`,
      },
    ],
  },
  {
    name: 'two calls have the turn of a key',
    subject: 'ledger',
    edits: [
      {
        where: 'update "public"."integration_idempotency_keys"',
        replace: '"turn_ends_at" is null',
        by: '"key" is not null',
      },
    ],
  },
]

const LOCKS: readonly Bug[] = [
  { name: 'a lock is taken from its holder', subject: 'locks', edits: [TAKES_A_HELD_LOCK] },
  {
    name: 'a lock is given back by another than its holder',
    subject: 'locks',
    edits: [{ where: RELEASE, replace: '"owner" = $2', by: '"owner" is distinct from nullif($2, $2)' }],
    isInShortRun: true,
  },
  {
    name: 'a lock is extended by another than its holder',
    subject: 'locks',
    edits: [{ where: EXTEND, replace: '"owner" = $3', by: '"owner" is distinct from nullif($3, $3)' }],
  },
  {
    name: 'a lock whose time is over is extended',
    subject: 'locks',
    edits: [
      {
        where: EXTEND,
        replace: '"public"."integration_cache"."expires_at" > clock_timestamp()::timestamptz(3)',
        by: 'true',
      },
    ],
  },
  {
    name: 'a lock that is extended ends no later',
    subject: 'locks',
    edits: [
      {
        where: EXTEND,
        replace: `set "expires_at" = ${NEW_END}`,
        by: `set "expires_at" = least("public"."integration_cache"."expires_at", ${NEW_END})`,
      },
    ],
  },
  { name: 'a lock is over at once', subject: 'locks', edits: LOCK_IS_OVER_AT_ONCE },
]

const TOKENS: readonly Bug[] = [
  { name: 'two refreshes have the lock', subject: 'tokens', edits: [TAKES_A_HELD_LOCK] },
  { name: 'a refresh does not read again under the lock', subject: 'tokens', staleRead: true, isInShortRun: true },
  { name: 'the lock of a refresh is over at once', subject: 'tokens', edits: LOCK_IS_OVER_AT_ONCE },
  {
    name: 'new tokens are given out and not stored',
    subject: 'tokens',
    edits: [
      {
        where: 'update "public"."integrations" set "credentials"',
        replace: 'where "public"."integrations"."id" =',
        by: 'where false and "public"."integrations"."id" =',
      },
    ],
  },
]

export const BUGS: readonly Bug[] = [...CLAIMS, ...LIMITER, ...LEDGER, ...LOCKS, ...TOKENS]
