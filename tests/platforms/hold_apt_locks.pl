# Takes apt's locks as apt does, says so, and keeps them for some seconds: hold_apt_locks.pl SECONDS
use strict;
use Fcntl;
$| = 1;
my @held;
for my $path ("/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock") {
  open(my $file, "+>>", $path) or die "$path: $!";
  # struct flock of 64-bit Linux: type, whence, start, length, process
  my $lock = pack("s s x4 q q i x4", F_WRLCK, 0, 0, 0, 0);
  fcntl($file, F_SETLK, $lock) or die "$path: $!";
  push @held, $file;
}
print "held\n";
sleep $ARGV[0];
