package commands

func migrateSecrets(args [][]byte) []bool {
	return secretBehind(args, 6, secretWord{"AUTH", 1}, secretWord{"AUTH2", 2})
}
