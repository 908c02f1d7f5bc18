/**
 * The newest tokens of an integration: stored meanwhile, or new ones from the provider. One refresh at a time across all
 * processes; callers of one process that ask at the same moment share it.
 * Rule: docs/behaviour/oauth.md, "Refresh".
 */
import { AsyncResource } from 'node:async_hooks'
import { integrationKey } from '../cache/integration-keys.ts'
import type { Lease } from '../cache/lock.ts'
import { classifyFailure } from '../calls/failure-class-rules.ts'
import { isSurelyWithoutEffect } from '../calls/idempotency-rules.ts'
import { keysOf } from '../credentials/credentials.ts'
import type { Database } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import {
  InvalidArgumentException,
  isIntegrationsError,
  ReauthRequiredException,
  RequestTimeout,
} from '../framework/errors.ts'
import { secretsKnownTo } from '../framework/known-secrets.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { redactText } from '../framework/redaction.ts'
import { errorKind } from '../framework/thrown.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { noteTokenRefreshed, noteTokenRefreshFailed } from './keep-alive.ts'
import { obtainsTokens } from './oauth-provider.ts'
import { askedWithDigest } from './obtained-tokens.ts'
import { clearReauthMark, markPair, reauthMark } from './reauth.ts'
import { isRefusal, noteRefusalOver, noteTokensRefused, refuseIfRefused } from './refused-tokens.ts'
import type { Tokens } from './rules.ts'
import { expiresSoon, isInvalidGrant, isSamePair, refreshedTokens, tokenDigest, tokensOf } from './rules.ts'
import { isLost, saveTokens } from './token-save.ts'
import { insideTokenWork, withTokenLock } from './token-work.ts'
import { noteUnstored } from './unstored-tokens.ts'

export interface TokenQuestion {
  /** Any handle of the integration. */
  readonly integration: Integration
  readonly provider: HasOAuth2
  /** The tokens that are no longer good enough. */
  readonly known: Tokens
  /** They were refused, or a refresh is forced: the stored ones will do only with another access token. */
  readonly force: boolean
}

/** Of one caller, where each time the credentials are changed while the server is asked. */
const TRIES = 3

const UNDER_WAY = new WeakMap<Database, Map<string, Promise<Credentials>>>()

/**
 * A shared refresh must not run in the sync, operation or transaction of its first caller. Bound to the context in which this
 * file was loaded, which has none of them.
 */
const outsideOfCallers = AsyncResource.bind(<T>(work: () => T): T => work())

/**
 * The stored credentials, after a refresh where they need one.
 *
 * @throws ReauthRequiredException, LockTimeoutException, RequestTimeout when the lock's time is over, whatever `refreshToken()` threw
 */
export function newestCredentials(framework: Framework, question: TokenQuestion): Promise<Credentials> {
  const { integration, provider, known, force } = question
  const underWay = UNDER_WAY.get(framework.db) ?? new Map<string, Promise<Credentials>>()
  UNDER_WAY.set(framework.db, underWay)
  // A handle with other credentials wants another token.
  const asked = obtainsTokens(provider, integration) ? askedWithDigest(integration) : null
  const key = JSON.stringify([integration.id, force, known.accessToken, known.refreshToken, asked])
  const existing = underWay.get(key)
  if (existing !== undefined) return existing
  const over = (): void => {
    if (underWay.get(key) === answer) underWay.delete(key)
  }
  const answer: Promise<Credentials> = outsideOfCallers(() => newest(framework, question, over)).finally(over)
  underWay.set(key, answer)
  return answer
}

/** The stored tokens, and whether they will do. */
interface Look {
  readonly fresh: Integration
  readonly credentials: Credentials
  readonly tokens: Tokens
  readonly willDo: boolean
}

async function look({ clock }: Framework, { integration, provider, known, force }: TokenQuestion): Promise<Look> {
  const fresh = await integration.refresh()
  const credentials = fresh.credentialsArray()
  const tokens = tokensOf(credentials)
  const isNewer = force ? tokens.accessToken !== known.accessToken : !isSamePair(tokens, known)
  // One that is revoked, or whose credentials were changed, needs no person to come back.
  const isMissing = tokens.accessToken === null && obtainsTokens(provider, fresh)
  if (isMissing) return { fresh, credentials, tokens, willDo: false }
  const isSoon = tokens.accessToken !== null && expiresSoon(tokens, provider.refreshThreshold(), clock.now())
  return { fresh, credentials, tokens, willDo: isNewer || (!force && !isSoon) }
}

/** @param over the answer is known: who asks from now on, such as a listener, must not wait for the listeners of this one */
async function newest(
  framework: Framework,
  question: TokenQuestion,
  over: () => void,
  tries = TRIES,
): Promise<Credentials> {
  const { id } = question.integration
  // Without the lock first: a caller that needs no refresh, or can get none, does not wait for another one's.
  const seen = await look(framework, question)
  // Another pair than the handle's, which is over as well, has to be refreshed. A pair that is stored from here on will do.
  const isOver = seen.tokens.accessToken !== null && expiresSoon(seen.tokens, 0, framework.clock.now())
  if (seen.willDo && (question.force || !isOver)) return seen.credentials
  const since = { ...question, known: seen.tokens }
  await refuseIfMarked(framework, id, question.provider, seen.fresh)
  try {
    const ended = await withTokenLock(framework, id, (lease) => refresh(framework, since, lease))
    over()
    await ended.announce()
    if ('failure' in ended) throw ended.failure
    // The credentials were changed while the server was asked: what it gave is not stored.
    const isMissing = obtainsTokens(question.provider, seen.fresh) && tokensOf(ended.credentials).accessToken === null
    return isMissing && tries > 1 ? await newest(framework, question, over, tries - 1) : ended.credentials
  } catch (error) {
    if (!isIntegrationsError(error, 'lock_timeout')) throw error
    const stored = await look(framework, since)
    if (stored.willDo) return stored.credentials
    throw error
  }
}

async function refuseIfMarked(
  framework: Framework,
  integrationId: number,
  provider: HasOAuth2,
  integration: Integration,
): Promise<void> {
  if (obtainsTokens(provider, integration)) return refuseIfRefused(framework, integrationId)
  const mark = await reauthMark(framework, integrationId)
  if (mark !== null) throw new ReauthRequiredException(integrationId, mark.reason)
}

interface Refreshed {
  readonly credentials: Credentials
  /** Calls the listeners, once the lock is released: they take as long as they like. */
  readonly announce: () => Promise<void>
}

interface Failed {
  /** To be thrown. */
  readonly failure: unknown
  /** As of {@link Refreshed}. */
  readonly announce: () => Promise<void>
}

/** Under the lock. */
async function refresh(framework: Framework, question: TokenQuestion, lease: Lease): Promise<Refreshed | Failed> {
  const ttlMs = framework.config.oauth.refresh_lock_ttl * 1_000
  const seen = await look(framework, question)
  if (seen.willDo) return { credentials: seen.credentials, announce: async () => {} }
  await refuseIfMarked(framework, seen.fresh.id, question.provider, seen.fresh)
  const beginning = await noteRefreshBegun(framework, seen.fresh.id, seen.tokens)
  const tooLate = new RequestTimeout('refreshToken()', ttlMs)
  const leftMs = lease.leftMs()
  // The lock is over, and another process may be refreshing.
  if (leftMs <= 0) {
    // Our refresh has not begun. An earlier one that was cut off keeps its note.
    if (beginning.cutOffAt === null) await forgetRefreshBegun(framework, seen.fresh.id)
    throw tooLate
  }
  const work = askAndSave(framework, question.provider, seen)
  noteUnstored(framework, work)
  const late = () => tooLate
  try {
    return await withTimeLimit(leftMs / 1_000, late, () => work)
  } catch (error) {
    if (error === tooLate) followLate(framework, seen.fresh, work)
    if (obtainsTokens(question.provider, seen.fresh)) return await notObtained(framework, seen.fresh, error)
    return await failed(framework, seen, beginning, error)
  }
}

async function askAndSave(
  framework: Framework,
  provider: HasOAuth2,
  { fresh, tokens }: Pick<Look, 'fresh' | 'tokens'>,
): Promise<Refreshed> {
  const { clock, listeners } = framework
  const { id } = fresh
  const given: unknown = await insideTokenWork(framework, id, () => provider.refreshToken(fresh))
  const isSoon = expiresSoon(tokens, provider.refreshThreshold(), clock.now())
  const refreshed = refreshedTokens(given, isSoon)
  if (refreshed === null)
    throw new InvalidArgumentException(
      'result of refreshToken()',
      'an object with an access_token of at least one character is allowed',
    )
  const { patch, isExpiryUnreadable } = refreshed
  if (isExpiryUnreadable)
    integrationLogger(framework, fresh).warn(
      { event: 'tokens.expiry_unreadable' },
      'refreshToken() gave a token_expires_at that is no ISO 8601 time; the tokens are stored without one, so they are not refreshed before they are refused',
    )
  const askedBy = obtainsTokens(provider, fresh) ? fresh : null
  const { isOurs, credentials } = await saveTokens(framework, id, tokens, patch, askedBy)
  if (!isOurs) return { credentials, announce: async () => {} }
  framework.integrationsChanged.set(fresh.provider, performance.now())
  if (isLost('token_expires_at', patch, credentials))
    integrationLogger(framework, fresh).warn(
      { event: 'tokens.expiry_dropped' },
      'the credentialsSchema drops token_expires_at; the tokens are stored without one, so they are not refreshed before they are refused',
    )
  let announceOver = async (): Promise<void> => {}
  await settle(framework, fresh, 'what is known of its refreshes could not be written', async () => {
    await forgetRefreshBegun(framework, id)
    // A late answer may arrive after another caller was refused for want of it.
    await clearReauthMark(framework, id)
    await noteTokenRefreshed(framework, id)
    if (askedBy !== null) announceOver = await noteRefusalOver(framework, fresh)
  })
  const announce = async (): Promise<void> => {
    await settle(framework, fresh, 'listeners of a closed incident could not be told', announceOver)
    await settle(framework, fresh, 'listeners of CredentialsUpdated could not be told', async () => {
      if (!listeners.has('CredentialsUpdated')) return
      const integration = await fresh.refresh()
      await insideTokenWork(
        framework,
        id,
        () => listeners.emit('CredentialsUpdated', { integration, keys: keysOf(patch) }),
        { isAdapters: false },
      )
    })
  }
  return { credentials, announce }
}

/** The caller has its error. A late answer is still stored, unless another refresh was quicker. */
function followLate(framework: Framework, fresh: Integration, work: Promise<Refreshed>): void {
  const logger = integrationLogger(framework, fresh)
  work
    .then(({ announce }) => {
      logger.warn(
        { event: 'tokens.refreshed_late' },
        'refreshToken() answered after the time of its lock; what it gave is stored',
      )
      return announce()
    })
    .catch((error: unknown) =>
      logger.warn(
        // Its kind only: the text may quote tokens that are not stored.
        { event: 'tokens.refresh_failed_late', error: errorKind(error) },
        'refreshToken() failed after the time of its lock',
      ),
    )
}

/** No person can authorize it again. After a failure that may pass, the next caller tries. */
async function notObtained(framework: Framework, fresh: Integration, error: unknown): Promise<Failed> {
  await settle(framework, fresh, 'the mark of a refresh could not be removed', () =>
    forgetRefreshBegun(framework, fresh.id),
  )
  return isRefusal(error) ? noteTokensRefused(framework, fresh, error) : { failure: error, announce: async () => {} }
}

/** With ReauthRequiredException when the provider refuses the stored tokens for good; else with the error. */
async function failed(
  framework: Framework,
  { fresh, tokens }: Look,
  { cutOffAt }: Beginning,
  error: unknown,
): Promise<Refreshed | Failed> {
  const { id } = fresh
  const isRefused = isIntegrationsError(error, 'reauth_required')
    ? (error as ReauthRequiredException).integrationId === id
    : isInvalidGrant(error)
  if (isRefused) {
    const reason = reasonOf(error, cutOffAt, secretsKnownTo(fresh))
    const announce = await markPair(framework, fresh, tokens, async () => reason)
    // Another refresh was quicker and has used our refresh token up: its tokens are the answer.
    if (announce === null) return { credentials: (await fresh.refresh()).credentialsArray(), announce: async () => {} }
    await settle(framework, fresh, 'the mark of a refresh could not be removed', () =>
      forgetRefreshBegun(framework, id),
    )
    return { failure: new ReauthRequiredException(id, reason, { cause: error }), announce }
  }
  let announce = async (): Promise<void> => {}
  await settle(framework, fresh, 'a failed refresh could not be counted', async () => {
    const isGone = isIntegrationsError(error, 'integration_not_found')
    // Otherwise the tokens may have been replaced, and the answer lost.
    const isWithoutEffect =
      isOwnRefusal(error) || isSurelyWithoutEffect(error, classifyFailure({ error, callerAborted: false }))
    if (isGone || (cutOffAt === null && isWithoutEffect)) await forgetRefreshBegun(framework, id)
    if (!isGone && !isOwnRefusal(error)) announce = await noteTokenRefreshFailed(framework, fresh, tokens, error)
  })
  return { failure: error, announce }
}

/** The breaker or the limiter refused: the provider was not asked, so nothing has failed. */
function isOwnRefusal(error: unknown): boolean {
  return isIntegrationsError(error, 'circuit_open') || isIntegrationsError(error, 'rate_limit_exceeded')
}

function reasonOf(error: unknown, cutOffAt: string | null, secrets: readonly string[]): string {
  const said = isIntegrationsError(error, 'reauth_required')
    ? redactText((error as ReauthRequiredException).reason, secrets)
    : 'invalid_grant'
  return cutOffAt === null
    ? said
    : `${said}; a refresh that began at ${cutOffAt} was cut off before its tokens were stored`
}

/** The tokens are stored; a failure of the work around them is only logged. */
async function settle(
  framework: Framework,
  fresh: Integration,
  message: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    integrationLogger(framework, fresh).error(
      { event: 'tokens.not_announced', error: redactedErrorLine(error, secretsKnownTo(fresh), 500) },
      message,
    )
  }
}

/** As the cache holds it. */
interface StoredBeginning {
  readonly started_at: string
  /** SHA-256 of the token that was sent. */
  readonly token: string
}

interface Beginning {
  /** When an earlier refresh by the same token began that was cut off; null: there was none. */
  readonly cutOffAt: string | null
}

function beginningKey(integrationId: number): string {
  return integrationKey(integrationId, 'token-refresh')
}

/**
 * Notes that a refresh begins. If the note cannot be stored, the provider is not asked.
 *
 * The note stays until the new tokens are stored. A process that dies in between leaves a refresh token that the provider may have
 * replaced; when the provider refuses it, the note says why. Rule: docs/behaviour/oauth.md, "A refresh that is cut off".
 */
async function noteRefreshBegun({ cache, clock }: Framework, integrationId: number, sent: Tokens): Promise<Beginning> {
  const token = tokenDigest(sent)
  const earlier = (await cache.get(beginningKey(integrationId))) as StoredBeginning | undefined
  if (earlier?.token === token) return { cutOffAt: earlier.started_at }
  const own = { started_at: clock.now().toISOString(), token } satisfies StoredBeginning
  await cache.set(beginningKey(integrationId), own, null)
  return { cutOffAt: null }
}

async function forgetRefreshBegun({ cache }: Framework, integrationId: number): Promise<void> {
  await cache.delete(beginningKey(integrationId))
}
