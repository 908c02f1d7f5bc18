/** Operator tokens that are made and revoked at run time. Rule: docs/behaviour/access.md, "Tokens at run time". */
import { randomBytes } from 'node:crypto'
import { and, desc, eq, isNull, lt, or, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables, TokenRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, TokenNotFound, UnknownProvider } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import { isInstant } from '../framework/instant.ts'
import type { Page } from '../framework/list-filter.ts'
import { checkChoice, checkIds, checkTexts, newestFirst } from '../framework/list-filter.ts'
import { checkOwner, checkOwnerFilter } from '../integrations/rules.ts'
import { recordAct } from '../observability/audit.ts'
import type { Limits, Scope } from './rules.ts'
import { SCOPES, sha256Hex } from './rules.ts'

const TOKEN_BYTES = 32
/** Tells secret scanners and people what a leaked text is. */
const TOKEN_PREFIX = 'dio_'
const TOKEN_SHAPE = /^dio_[\w-]{43}$/ // 32 bytes in base64url
/** No colon: `cli:<user>` is a command's name in the audit, and no token may pass for one. */
const TOKEN_NAME = /^[^\p{Cc}:]{1,64}$/u

export interface CreateToken {
  /** Who acts with it; 1 to 64 characters, no colon. */
  readonly name: string
  readonly scope: Scope
  /** Sees and changes nothing of another provider. */
  readonly provider?: string | undefined
  /** Sees and changes nothing of another owner. */
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  /** Left out: never. */
  readonly expiresAt?: Date | undefined
  /** Who makes it. */
  readonly by: string
  /** From where: docs/behaviour/audit.md. */
  readonly from?: string | undefined
}

/** A token as it is listed: never the token itself. */
export interface TokenSummary {
  readonly id: number
  readonly name: string
  readonly scope: Scope
  readonly provider: string | null
  readonly owner: { readonly type: string; readonly id: number } | null
  readonly state: 'good' | 'expired' | 'revoked'
  readonly expiresAt: Date | null
  readonly createdBy: string
  readonly createdAt: Date
  readonly revokedAt: Date | null
  /** To the minute. */
  readonly lastUsedAt: Date | null
}

/** @returns the token, which is shown this once, and how it is listed. @throws InvalidArgumentException, UnknownProvider */
export async function createToken(
  framework: Framework,
  { name, scope, provider, owner: givenOwner, expiresAt, by, from }: CreateToken,
): Promise<TokenSummary & { readonly token: string }> {
  const { db, tables, clock, config, providers } = framework
  if (typeof name !== 'string' || !TOKEN_NAME.test(name))
    throw new InvalidArgumentException('name', '1 to 64 characters are allowed, without a colon or control characters')
  checkChoice('scope', scope ?? '', SCOPES)
  checkTexts({ by: by ?? '', from })
  const owner = checkOwner(givenOwner) ?? null
  if (provider !== undefined && providers.find(provider) === null)
    throw new UnknownProvider(
      provider,
      providers.entries().map(([key]) => key),
    )
  if (expiresAt !== undefined && (!isInstant(expiresAt) || expiresAt <= clock.now()))
    throw new InvalidArgumentException('expiresAt', `a moment in the future is allowed, ${String(expiresAt)} was given`)
  if (name === 'dev' || config.operator.tokens.some((configured) => configured.name === name)) throw nameTaken(name)

  const token = TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('base64url')
  const row = await db.transaction(async (tx) => {
    const [made] = await tx
      .insert(tables.tokens)
      .values({
        name,
        sha256: sha256Hex(token),
        scope,
        provider: provider ?? null,
        ownerType: owner?.type ?? null,
        ownerId: owner?.id ?? null,
        expiresAt: expiresAt ?? null,
        createdBy: by,
      })
      .onConflictDoNothing()
      .returning()
    if (made === undefined) throw nameTaken(name)
    await recordAct(tx, tables, null, {
      by,
      action: 'create-token',
      target: `token:${made.id}`,
      from,
      detail: said(made),
    })
    return made
  })
  return { token, ...summaryOf(row, clock.now()) }
}

function nameTaken(name: string): InvalidArgumentException {
  return new InvalidArgumentException('name', `a name that no other token has is needed; there is a "${name}"`)
}

/** For the audit: what the token may do. */
function said({ name, scope, provider, ownerType, ownerId, expiresAt }: TokenRow): string {
  return [
    `"${name}", ${scope}`,
    ...(provider === null ? [] : [`provider ${provider}`]),
    ...(ownerType === null ? [] : [`owner ${ownerType}:${ownerId}`]),
    expiresAt === null ? 'never expires' : `until ${expiresAt.toISOString()}`,
  ].join(', ')
}

export interface ListTokens {
  /** Left out: all, the revoked and expired ones too. */
  readonly state?: TokenSummary['state'] | undefined
  readonly provider?: string | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  /** Older than the one of this id. */
  readonly after?: number | undefined
  readonly limit?: number | undefined
}

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listTokens(
  { db, tables: { tokens }, clock }: Framework,
  { state, provider, owner, after, limit }: ListTokens = {},
): AsyncIterable<TokenSummary> {
  checkIds({ after, limit })
  checkChoice('state', state, ['good', 'expired', 'revoked'])
  checkTexts({ provider })
  checkOwnerFilter(owner)
  const now = clock.now()
  const isExpired = sql`coalesce(${tokens.expiresAt} <= ${now.toISOString()}::timestamptz, false)`
  const ofState = {
    good: sql`${tokens.revokedAt} is null and not ${isExpired}`,
    expired: sql`${tokens.revokedAt} is null and ${isExpired}`,
    revoked: sql`${tokens.revokedAt} is not null`,
  }
  const read = async (page: Page): Promise<TokenSummary[]> => {
    const rows = await db
      .select()
      .from(tokens)
      .where(
        and(
          state === undefined ? undefined : ofState[state],
          provider === undefined ? undefined : eq(tokens.provider, provider),
          owner === undefined ? undefined : and(eq(tokens.ownerType, owner.type), eq(tokens.ownerId, owner.id)),
          page.below === undefined ? undefined : lt(tokens.id, page.below),
        ),
      )
      .orderBy(desc(tokens.id))
      .limit(page.limit)
    return rows.map((row) => summaryOf(row, now))
  }
  return newestFirst(read, { after, limit })
}

/** Ends a token and its sessions at once. Revoked again, the first revocation stays. @throws TokenNotFound */
export async function revokeToken(
  { db, tables, clock }: Framework,
  id: number,
  { by, from }: { readonly by: string; readonly from?: string | undefined },
): Promise<TokenSummary> {
  checkTexts({ by: by ?? '', from })
  if (!isId(id)) throw new TokenNotFound(id)
  const { tokens } = tables
  return db.transaction(async (tx) => {
    const [revoked] = await tx
      .update(tokens)
      .set({ revokedAt: clock.now() })
      .where(and(eq(tokens.id, id), isNull(tokens.revokedAt)))
      .returning()
    if (revoked !== undefined)
      await recordAct(tx, tables, null, {
        by,
        action: 'revoke-token',
        target: `token:${id}`,
        from,
        detail: `"${revoked.name}"`,
      })
    const [row] = revoked === undefined ? await tx.select().from(tokens).where(eq(tokens.id, id)) : [revoked]
    if (row === undefined) throw new TokenNotFound(id)
    return summaryOf(row, clock.now())
  })
}

function summaryOf({ sha256: _, ownerType, ownerId, updatedAt: __, ...row }: TokenRow, now: Date): TokenSummary {
  const isExpired = row.expiresAt !== null && row.expiresAt <= now
  return {
    ...row,
    owner: ownerType === null || ownerId === null ? null : { type: ownerType, id: ownerId },
    state: row.revokedAt !== null ? 'revoked' : isExpired ? 'expired' : 'good',
  }
}

/** The row of a token that is good now. A text that is not shaped like one costs no look-up; any other costs one, by an index. */
export async function goodToken({ db, tables, clock }: Framework, token: string): Promise<TokenRow | null> {
  if (!TOKEN_SHAPE.test(token)) return null
  const [row] = await db
    .select()
    .from(tables.tokens)
    .where(eq(tables.tokens.sha256, sha256Hex(token)))
  return row !== undefined && isGood(row, clock.now()) ? row : null
}

/** The same, for a session that began with it. */
export async function goodTokenOf({ db, tables, clock }: Framework, id: number): Promise<TokenRow | null> {
  const [row] = await db.select().from(tables.tokens).where(eq(tables.tokens.id, id))
  return row !== undefined && isGood(row, clock.now()) ? row : null
}

function isGood({ revokedAt, expiresAt }: TokenRow, now: Date): boolean {
  return revokedAt === null && (expiresAt === null || now < expiresAt)
}

/** Null: the token may do what its scope allows to all integrations. */
export function limitsOfToken({ provider, ownerType, ownerId }: TokenRow): Limits | null {
  if (provider === null && ownerType === null) return null
  return {
    ...(provider === null ? {} : { provider }),
    ...(ownerType === null || ownerId === null ? {} : { owner: { type: ownerType, id: ownerId } }),
  }
}

/** Whichever process does it, at most once a minute. */
export async function noteTokenUse(db: Database, { tokens }: Tables, id: number, now: Date): Promise<void> {
  const minuteAgo = new Date(now.getTime() - 60_000)
  await db
    .update(tokens)
    .set({ lastUsedAt: now })
    .where(
      and(
        eq(tokens.id, id),
        or(isNull(tokens.lastUsedAt), sql`${tokens.lastUsedAt} <= ${minuteAgo.toISOString()}::timestamptz`),
      ),
    )
}
