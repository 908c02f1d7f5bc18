/** Notes each write to a table of the copy, by triggers of its own. Rule: docs/behaviour/rehearsal.md, "Rows". */
import { getTableName, sql } from 'drizzle-orm'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import type { RowChange } from './rehearsal-jobs.ts'

const SCHEMA = 'durable_rehearsal'
const INSUFFICIENT_PRIVILEGE = '42501'

/** Of our own tables those whose rows a handler means to write, and the columns that it gives. */
const OURS = {
  mappings: ['integration_id', 'external_id', 'internal_type', 'internal_id'],
  events: ['integration_id', 'name', 'payload'],
} as const

interface Noted {
  readonly [column: string]: unknown
  readonly table: string
  readonly operation: RowChange['operation']
  readonly before: Json
  readonly after: Json
}

/** @throws InvalidArgumentException where the role may not watch the tables */
export async function watchRows(framework: Framework): Promise<void> {
  const { db } = framework
  try {
    for (const statement of SET_UP) await db.execute(sql.raw(statement))
    await db.execute(sql.raw(watching(framework)))
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== INSUFFICIENT_PRIVILEGE) throw cause
    throw new InvalidArgumentException(
      'database',
      'a role is needed that owns the tables of the copy, or a superuser: the rehearsal puts triggers on them',
      { cause },
    )
  }
}

/** What was written since the last call, in order. */
export async function takeChanges({ db, tables }: Framework): Promise<RowChange[]> {
  const rows = await db.execute<Noted & { id: string }>(sql`
    with taken as (delete from ${sql.raw(`${SCHEMA}.changes`)} returning *)
    select id, "table", operation, before, after from taken order by id`)
  const ours = new Map<string, readonly string[]>([
    [getTableName(tables.mappings), OURS.mappings],
    [getTableName(tables.events), OURS.events],
  ])
  return rows.map(({ table, operation, before, after }) => {
    const columns = ours.get(table.slice(table.indexOf('.') + 1))
    return { table, operation, before: kept(before, columns), after: kept(after, columns) }
  })
}

function kept(image: Json, columns: readonly string[] | undefined): Json {
  if (columns === undefined || image === null) return image
  const whole = image as Readonly<Record<string, Json>>
  return Object.fromEntries(columns.map((column) => [column, whole[column] ?? null]))
}

/** A BEFORE trigger sees an insert that finds a row in its way, too; the name puts it behind a host's own. */
const SET_UP = [
  `create schema ${SCHEMA}`,
  `create table ${SCHEMA}.changes (id bigint generated always as identity primary key, "table" text not null,
     operation text not null, before jsonb, after jsonb)`,
  `create function ${SCHEMA}.note() returns trigger language plpgsql security definer as $$
   declare
     done text := case when tg_op = 'INSERT' and tg_when = 'AFTER' then 'inserted' else lower(tg_op) end;
   begin
     if tg_level = 'STATEMENT' then
       insert into ${SCHEMA}.changes ("table", operation) values (tg_table_schema || '.' || tg_table_name, done);
       return null;
     end if;
     insert into ${SCHEMA}.changes ("table", operation, before, after)
     values (tg_table_schema || '.' || tg_table_name, done,
             case when tg_op <> 'INSERT' then to_jsonb(old) end, case when tg_op <> 'DELETE' then to_jsonb(new) end);
     return new;
   end $$`,
]

/** One statement, however many tables: plain ones and partitions of the host's, and {@link OURS}. */
function watching({ tables }: Framework): string {
  const { mappings, events, ...others } = tables
  const unwatched = Object.values(others).map((table) => literal(getTableName(table)))
  return `do $watch$
    declare
      t text;
    begin
      for t in
        select format('%I.%I', n.nspname, c.relname)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind = 'r' and c.relpersistence <> 't'
          and n.nspname not in ('pg_catalog', 'information_schema', '${SCHEMA}') and n.nspname not like 'pg_toast%'
          and c.relname not in (${unwatched.join(', ')})
          and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
      loop
        execute format('create trigger zz_rehearsal_asked before insert on %s for each row execute function ${SCHEMA}.note()', t);
        execute format('create trigger zz_rehearsal_done after insert or update or delete on %s for each row execute function ${SCHEMA}.note()', t);
        execute format('create trigger zz_rehearsal_emptied after truncate on %s for each statement execute function ${SCHEMA}.note()', t);
      end loop;
    end $watch$`
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`
