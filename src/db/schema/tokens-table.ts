import { sql } from 'drizzle-orm'
import { check, uniqueIndex } from 'drizzle-orm/pg-core'
import { SCOPES } from '../../access/rules.ts'
import type { Name, TableFactory } from './columns.ts'
import { id, isOneOf, moment, oneOf, reference, string, timestamps } from './columns.ts'

/** Operator tokens that were made at run time. Never the token itself. Ours. */
export const tokensTable = (table: TableFactory, name: Name) =>
  table(
    name('_tokens'),
    {
      id: id(),
      /** Who acts: the audit and the logs have it. */
      name: string('name').notNull(),
      /** Of the token, in hex. */
      sha256: string('sha256', 64).notNull(),
      scope: oneOf('scope', SCOPES, 16).notNull(),
      /** Null: of every provider. */
      provider: string('provider'),
      /** Null, both: of every owner. */
      ownerType: string('owner_type'),
      ownerId: reference('owner_id'),
      /** Null: it never expires. */
      expiresAt: moment('expires_at'),
      createdBy: string('created_by').notNull(),
      revokedAt: moment('revoked_at'),
      /** Written at most once a minute. */
      lastUsedAt: moment('last_used_at'),
      ...timestamps(),
    },
    (column) => [
      // The look-up of each call.
      uniqueIndex(name('_tokens_hash_key')).on(column.sha256),
      // One name is one caller, as long as its token is good.
      uniqueIndex(name('_tokens_name_key')).on(column.name).where(sql`${column.revokedAt} is null`),
      check(name('_tokens_scope_check'), isOneOf(column.scope, SCOPES)),
    ],
  )
