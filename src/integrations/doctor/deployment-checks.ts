/** What everything stands on: database, keys, Temporal, and access to the API. */
import { keyStatus, pageOfCredentials, verifyKeys } from '../../credentials/encryption-keys.ts'
import { databaseNowMs } from '../../db/client.ts'
import { firstAndLast } from '../../db/migration-rules.ts'
import type { Framework, ScheduleState } from '../../framework/context.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import { ascendingPages } from '../../framework/list-filter.ts'
import { errorLine } from '../../framework/logger.ts'
import { hasOAuth2 } from '../../providers/contracts.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_FINDINGS, moment, ok, warning } from './doctor-check.ts'
import { databaseBlocked } from './lock-check.ts'
import { temporalWorkers } from './workers-check.ts'

/** Beyond it, moments of the process and of the database can't be compared, and signed times look old. */
const MAX_SKEW_SECONDS = 5

const databaseReachable: Check = {
  name: 'database.reachable',
  needs: [],
  async look(_, { checkDatabase, askAside }) {
    try {
      await checkDatabase()
    } catch (error) {
      return fault(errorLine(error, 1_000), 'psql "$DATABASE_URL" -c "select version()"')
    }
    const [row] = await askAside(
      (sql) => sql<{ version: string }[]>`select current_setting('server_version') as version`,
    )
    return ok(`Postgres ${row?.version} answers.`)
  },
}

const databaseMigrations: Check = {
  name: 'database.migrations',
  needs: ['database.reachable'],
  async look(_, { pendingMigrations }) {
    const pending = await pendingMigrations()
    return pending.length === 0
      ? ok('The tables are up to this release.')
      : fault(`The tables are behind this release by ${firstAndLast(pending)}.`, 'integrations migrate')
  },
}

const clockSkew: Check = {
  name: 'clock.skew',
  needs: ['database.reachable'],
  async look({ db, clock }) {
    const askedAt = clock.now().getTime()
    const nowMs = await databaseNowMs(db)
    const answeredAt = clock.now().getTime()
    // The database read its clock between these two moments.
    const behindMs = nowMs - answeredAt
    const aheadMs = askedAt - nowMs
    const skewSeconds = Math.max(behindMs, aheadMs, 0) / 1_000
    if (skewSeconds <= MAX_SKEW_SECONDS)
      return ok(`This machine's clock and Postgres' agree within ${MAX_SKEW_SECONDS} s.`)
    return warning(
      `This machine's clock is ${Math.round(skewSeconds)} s ${behindMs > aheadMs ? 'behind' : 'ahead of'} Postgres', which says ${moment(new Date(nowMs))}; ${MAX_SKEW_SECONDS} s are allowed. Correct whichever is wrong.`,
      'sudo timedatectl set-ntp true',
    )
  },
}

/** Decrypted at once, some milliseconds. */
const KEYS_PAGE = 250

const keysMatch: Check = {
  name: 'keys.match',
  needs: ['database.migrations'],
  async look(framework) {
    try {
      await verifyKeys(lookingOnly(framework))
    } catch (error) {
      if (!isIntegrationsError(error, 'encryption_key_mismatch')) throw error
      return fault(error.message, 'integrations keys status')
    }
    return ok(`The key ring (${framework.encryption.kids.join(', ')}) is the one that wrote this database.`)
  },
}

const keysRotation: Check = {
  name: 'keys.rotation',
  needs: ['keys.match'],
  async look(framework) {
    const { primary, keys } = await keyStatus(framework)
    const older = keys.filter(({ kid, inRing, rows }) => kid !== primary && inRing && rows > 0)
    if (older.length === 0) return ok(`All credentials are written with the key that writes, "${primary}".`)
    const each = older.map(({ kid, rows }) => `${counted(rows, 'integration')} with "${kid}"`).join(', ')
    return warning(
      `Credentials are not written with the key that writes, "${primary}", but ${each}. Those keys can't be removed yet.`,
      'integrations keys rotate',
    )
  },
}

const keysReadable: Check = {
  name: 'keys.readable',
  needs: ['keys.match'],
  async look(framework) {
    const { db, tables, encryption } = framework
    const unreadable: Observation[] = []
    let looked = 0
    for await (const rows of ascendingPages((page) => pageOfCredentials(db, tables, page), { size: KEYS_PAGE })) {
      for (const { id, credentials } of rows)
        try {
          encryption.decrypt(id, credentials)
        } catch (error) {
          if (!isIntegrationsError(error, 'credentials_unreadable')) throw error
          unreadable.push(
            fault(`${error.message} Its calls fail until it has others.`, `integrations show ${id}`, {
              integrationId: id,
            }),
          )
        }
      looked += rows.length
      if (unreadable.length > MAX_FINDINGS) break
    }
    return capped(unreadable, `The credentials of ${counted(looked, 'integration')} can be read.`)
  },
}

export const databaseChecks = [
  databaseReachable,
  databaseBlocked,
  databaseMigrations,
  clockSkew,
  keysMatch,
  keysRotation,
  keysReadable,
]

/** A start writes a new key's canary. A doctor with the wrong ring on an empty database must not. */
function lookingOnly(framework: Framework): Framework {
  const { cache } = framework
  return { ...framework, cache: { ...cache, get: (key) => cache.get(key), add: async () => true } }
}

const APPLY = 'integrations schedules --apply'

/** Weeks enough for a restart of every process. An authority that renews by itself, such as cert-manager, does so earlier. */
const CERTIFICATE_DAYS = 14
const CERTIFICATE_END = 'openssl x509 -noout -enddate -in "$TEMPORAL_TLS_CLIENT_CERT_PATH"'

const temporalReachable: Check = {
  name: 'temporal.reachable',
  needs: [],
  async look({ temporal, clock }) {
    const { certificateEndsAt: end = null } = temporal
    const leftMs = end === null ? Number.POSITIVE_INFINITY : end.getTime() - clock.now().getTime()
    const ends =
      end === null || leftMs > CERTIFICATE_DAYS * 86_400_000
        ? ''
        : `The client certificate that this process read when it started ${leftMs > 0 ? 'ends' : 'ended'} at ${moment(end)}. Renew its file, which the command shows, and restart each API and worker: only a start reads it.`
    try {
      await temporal.check()
    } catch (error) {
      return fault(
        `${errorLine(error, 1_000)} ${ends}`.trim(),
        leftMs > 0 ? temporal.commands.reach(error) : CERTIFICATE_END,
      )
    }
    // Connections that stand outlive it; the next one is refused.
    if (ends !== '') return warning(ends, CERTIFICATE_END)
    return ok(`Temporal answers at ${temporal.address}, namespace "${temporal.namespace}".`)
  },
}

const temporalSchedules: Check = {
  name: 'temporal.schedules',
  needs: ['temporal.reachable'],
  async look({ config, temporal }) {
    const states = await temporal.schedules()
    const wrong = states.flatMap((state) => judge(state, temporal.commands.resume(state.id)))
    if (wrong.length > 0) return wrong
    return config.schedules.enabled
      ? ok(`In step with the configuration: ${states.map((state) => state.name).join(', ')}.`)
      : ok('There are none: schedules.enabled is false, the host keeps the timing.')
  },
}

function judge({ name, id, standing, differences, isPaused, note }: ScheduleState, resume: string): Observation[] {
  if (standing === 'missing')
    return [fault(`The Schedule ${id} is missing: nothing starts ${name}. A worker makes it when it starts.`, APPLY)]
  if (standing === 'left over')
    return [warning(`The Schedule ${id} is left over: the configuration does not ask for it.`, APPLY)]
  if (standing === 'differs')
    return [warning(`The Schedule ${id} is not as configured: ${differences.join(', ')}.`, APPLY)]
  const quoted = note === null || note === '' ? '' : ` ("${note}")`
  return isPaused ? [warning(`The Schedule ${id} is paused${quoted}: ${name} does not start.`, resume)] : []
}

const temporalWedged: Check = {
  name: 'temporal.wedged',
  needs: ['temporal.reachable'],
  async look({ temporal }) {
    const wedged = await temporal.wedged()
    return capped(
      wedged.map(({ id, type, attempts, queue }) => {
        // A recovery of the Schedule that does not go on holds it up; the Schedule's ends one of a command.
        const recovery =
          type === 'backfillSync'
            ? 'it does not go on until a person ends it'
            : type === 'recoverWebhooks' && !id.endsWith(':recover-webhooks')
              ? 'it does not go on. Temporal ends it half an hour after its start, and its Schedule starts another one'
              : 'it does not go on. Recovery, which looks each five minutes, replaces it'
        return fault(
          queue === null
            ? `The task of the workflow ${id} has been tried ${attempts} times and fails: ${recovery}; its last event says why.`
            : `The workflow ${id} is on the task queue ${queue}, which no worker polls and the configuration does not name: ${recovery}.`,
          temporal.commands.terminate(id),
        )
      }),
      'No workflow of ours fails again and again, or is on a task queue that is not worked on any more.',
    )
  },
}

export const temporalChecks = [temporalReachable, temporalSchedules, temporalWorkers, temporalWedged]

/** Prints a new token, and the line that makes it known to API, worker and CLI started from the same shell. */
const NEW_TOKEN = `node -e ${"'"}const { createHash, randomBytes } = require("crypto"); const token = randomBytes(32).toString("base64url"); const sha256 = createHash("sha256").update(token).digest("hex"); console.log("# token: " + token); console.log("export INTEGRATIONS__OPERATOR__TOKENS=\\x27" + JSON.stringify([{ name: "me", sha256, scopes: ["operate"] }]) + "\\x27")${"'"}`

const HTTPS_BASE_URL = 'export INTEGRATIONS_BASE_URL=https://integrations.example.com'

const accessTokens: Check = {
  name: 'access.tokens',
  needs: [],
  async look({ config }, { dev }) {
    const names = config.operator.tokens.map(({ name }) => name)
    if (names.length > 0) return ok(`Operators' tokens: ${names.join(', ')}.`)
    if (config.operator.oidc !== null) return ok(`No token; people sign in at ${config.operator.oidc.issuer}.`)
    if (dev)
      return ok('No token but that of `dev`: the API logs the address that signs a browser in (event access.dev).')
    return warning(
      'There is no operator token (operator.tokens): no one can read the operator pages. Keep the token that this prints, and put the other line where API and CLI get their environment.',
      NEW_TOKEN,
    )
  },
}

const accessBaseUrl: Check = {
  name: 'access.base_url',
  needs: [],
  async look({ providers }, { baseUrl }) {
    const oauth = providers.entries().flatMap(([key, provider]) => (hasOAuth2(provider) ? [key] : []))
    if (baseUrl !== null && oauth.length > 0 && isInTheClear(baseUrl))
      return warning(
        `The API is reached at ${baseUrl}, without TLS, and ${oauth.join(', ')} use OAuth: most providers refuse to lead a browser back there, and anyone on the way can read the code.`,
        HTTPS_BASE_URL,
      )
    if (baseUrl !== null) return ok(`The API is reached at ${baseUrl}.`)
    if (oauth.length === 0) return ok('Not set, and no registered provider needs it.')
    return warning(
      `No base URL is set, and ${oauth.join(', ')} use OAuth: providers can't lead a browser back to the API. Set it to where the API is reached from outside.`,
      HTTPS_BASE_URL,
    )
  },
}

export const accessChecks = [accessTokens, accessBaseUrl]

/** RFC 8252, 8.3: http is only good enough to the machine itself. */
function isInTheClear(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl)
  return protocol === 'http:' && !['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}
