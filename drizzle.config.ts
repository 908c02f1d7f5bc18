import { defineConfig } from 'drizzle-kit'

// `npm run db:generate -- --name what_changes` writes the next migration. src/db/apply-migrations.ts applies it.
export default defineConfig({
  dialect: 'postgresql',
  schema: './src/db/schema/templates.ts',
  out: './drizzle',
})
