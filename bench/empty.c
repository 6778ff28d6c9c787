/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-empty: does nothing, but is linked with every library that the command is linked
 * with. What it costs to start is what no command can go below.
 */
int main(void)
{
	return 0;
}
